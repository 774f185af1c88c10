package objects_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/providers"
)

// movement is a transaction of a balance.
type movement struct {
	id, kind, account string
	at                time.Time
	source            string // JSON
}

// stripe simulates Stripe: objects, and the balance's transaction list.
type stripe struct {
	t         *testing.T
	client    *onceward.Client
	journal   machine.Store
	movements []movement
	lists     []*http.Request
	refuse    func(r *http.Request) *http.Response
	fill      string // in each transaction, to make pages long
	made      int
	silent    bool // an object moves nothing
	spoil     func(source string) string
}

// RoundTrip answers a request.
func (s *stripe) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Path == "/v1/account":
		return oncetest.Answers(http.StatusOK, fmt.Sprintf(`{"id":%q}`, cmp.Or(r.Header.Get("Stripe-Account"), "acct_own"))), nil
	case r.Method == http.MethodPost:
		return oncetest.Answers(http.StatusOK, s.creates(r)), nil
	case r.URL.Path != "/v1/balance_transactions":
		return oncetest.Answers(http.StatusNotFound, `{"error":{"type":"invalid_request_error"}}`), nil
	}
	s.lists = append(s.lists, r)
	if s.refuse != nil {
		if resp := s.refuse(r); resp != nil {
			return resp, nil
		}
	}
	resp := oncetest.Answers(http.StatusOK, s.page(r))
	resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return resp, nil
}

// creates makes a request's object, and moves its amount.
func (s *stripe) creates(r *http.Request) string {
	text, err := io.ReadAll(r.Body)
	require.NoError(s.t, err)
	form, err := url.ParseQuery(string(text))
	require.NoError(s.t, err)
	s.made++
	kind := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/"), "s")
	amount, currency, mark := form.Get("amount"), cmp.Or(form.Get("currency"), "eur"), form.Get("metadata[onceward]")
	id := fmt.Sprintf("%s_%d", kind, s.made)
	state := map[string]string{"charge": "succeeded", "payment_intent": "succeeded", "payout": "paid", "refund": "succeeded"}[kind]
	object := func(id, kind, more string) string {
		return fmt.Sprintf(`{"id":%q,"object":%q,"amount":%s,"amount_captured":%s,"currency":%q,"status":%q,"metadata":{"onceward":%q},"created":%d%s}`,
			id, kind, amount, amount, currency, state, mark, time.Now().Unix(), more)
	}
	said, source := object(id, kind, ""), object(id, kind, "")
	if kind == "payment_intent" {
		source = object("ch_of_"+id, "charge", fmt.Sprintf(`,"payment_intent":%q`, id))
	}
	if s.spoil != nil {
		source = s.spoil(source)
	}
	if !s.silent {
		s.moves(kind, source).account = r.Header.Get("Stripe-Account")
	}
	return said
}

// moves adds a transaction.
func (s *stripe) moves(kind, source string) *movement {
	s.movements = append(s.movements, movement{id: fmt.Sprint("txn_", len(s.movements)), kind: kind, at: time.Now(), source: source})
	return &s.movements[len(s.movements)-1]
}

// page returns a page of the list, newest first.
func (s *stripe) page(r *http.Request) string {
	q := r.URL.Query()
	number := func(name string) int64 {
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		assert.NoError(s.t, err, "%s of %s", name, r.URL)
		return n
	}
	since, until, limit := number("created[gte]"), number("created[lte]"), int(number("limit"))
	assert.Equal(s.t, "data.source", q.Get("expand[]"))
	var found []movement
	for _, m := range slices.Backward(s.movements) {
		if m.account == r.Header.Get("Stripe-Account") && m.at.Unix() >= since && m.at.Unix() <= until {
			found = append(found, m)
		}
	}
	if after := q.Get("starting_after"); after != "" {
		found = found[slices.IndexFunc(found, func(m movement) bool { return m.id == after })+1:]
	}
	var texts []string
	for _, m := range found[:min(limit, len(found))] {
		texts = append(texts, fmt.Sprintf(`{"id":%q,"object":"balance_transaction","type":%q,"created":%d,"amount":-1,"currency":"usd","source":%s,"description":%q}`,
			m.id, m.kind, m.at.Unix(), m.source, s.fill))
	}
	return fmt.Sprintf(`{"object":"list","data":[%s],"has_more":%v}`, strings.Join(texts, ","), len(found) > limit)
}

// open returns an account at Stripe, and an application with its journal in a SQLite file.
func open(t *testing.T, adjust ...func(*onceward.Config)) *stripe {
	t.Helper()
	s := &stripe{t: t, journal: oncetest.OnDisk(t)}
	cfg := onceward.Config{
		Journal: s.journal, Providers: []providers.Provider{providers.Stripe()}, HTTPClient: &http.Client{Transport: s},
		Reconcile: &onceward.Reconcile{}, Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer sk_test_1"); return nil },
	}
	for _, f := range adjust {
		f(&cfg)
	}
	var err error
	s.client, err = onceward.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

// asks makes an operation.
func (s *stripe) asks(name, path, form string, account ...string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(onceward.WithOperation(s.t.Context(), name), http.MethodPost, "https://api.stripe.com"+path, strings.NewReader(form))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", oncetest.Form)
	for _, a := range account {
		req.Header.Set("Stripe-Account", a)
	}
	resp, err := s.client.HTTPClient().Do(req)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
}
