package catchup_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

const (
	day     = 24 * time.Hour
	horizon = 30 * day
)

// feedOf returns how the bank lists its events: newest first, by the second, at most 100 on a page and 20 types in a
// request, for 30 days.
func feedOf(host string) providers.Feed {
	return providers.Feed{
		Host: host, Path: "/events", Query: "since={since}&until={until}", TimeLayout: "unix", Items: "data[]",
		Next:  providers.Paging{Style: providers.PageLastID, Param: "after", More: "has_more", Size: 100},
		Types: "types", TypesAtOnce: 20, Limit: "limit", Undelivered: "undelivered=true",
		ID: "id", At: "created", Type: "type", Account: "account", SameID: true, Owner: providers.OfAccountHeader, Horizon: horizon,
		Needs: "a key that may read events", Source: "made up",
	}
}

// event is one of the bank's list.
type event struct {
	id, kind  string
	at        time.Time
	body      string
	account   string // whose list has it
	delivered bool
}

// list is the bank's event list, and the application that reads it.
type list struct {
	*teller
	mu       sync.Mutex
	events   []event
	requests []*http.Request // for pages
	asked    []time.Time     // the time of each
	named    int             // requests for a credential's account
	refuse   func(r *http.Request) *http.Response
	insecure bool
	unsorted bool // types are not filtered
	got      []string
	bodies   []string
	handle   func(w http.ResponseWriter, r *http.Request, id string)
}

// byHeader makes the bank's requests and events name an account.
func byHeader(p *providers.Provider) {
	p.AccountHeaders = []string{"Bank-Account"}
	for i := range p.Events {
		p.Events[i].Account = "account"
	}
}

// listing returns a bank that lists events, and an application there.
func listing(t *testing.T, cfg onceward.Config, adjust ...func(*providers.Provider)) *list {
	t.Helper()
	srv := openBank(t, unlooked, byHeader)
	return reading(t, srv, cfg, adjust...)
}

func reading(t *testing.T, srv *providertest.Server, cfg onceward.Config, adjust ...func(*providers.Provider)) *list {
	t.Helper()
	at, err := url.Parse(srv.URL)
	require.NoError(t, err)
	lists := func(p *providers.Provider) { p.Feed = feedOf(at.Host) }
	l := &list{teller: another(t, srv, cfg, append([]func(*providers.Provider){lists}, adjust...)...)}
	l.Fakes(l.answer)
	return l
}

func (l *list) answer(r *http.Request) *http.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch r.URL.Path {
	case "/me":
		l.named++
		return answers(http.StatusOK, fmt.Sprintf(`{"account":{"id":%q}}`, cmp.Or(r.Header.Get("Bank-Account"), r.Header.Get("Authorization"))))
	case "/events":
	default:
		return nil
	}
	l.requests, l.asked = append(l.requests, r.Clone(r.Context())), append(l.asked, time.Now())
	if l.refuse != nil {
		if resp := l.refuse(r); resp != nil {
			return resp
		}
	}
	resp := answers(http.StatusOK, l.page(r))
	if host := r.URL.Hostname(); !l.insecure {
		cert := &x509.Certificate{DNSNames: []string{host}}
		resp.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
	}
	return resp
}

// page returns the list's requested page.
func (l *list) page(r *http.Request) string {
	q := r.URL.Query()
	unix := func(name string) time.Time {
		seconds, err := strconv.ParseInt(q.Get(name), 10, 64)
		assert.NoError(l.T, err, r.URL)
		return time.Unix(seconds, 0)
	}
	since, until := time.Time{}, time.Now()
	if q.Has("since") {
		since, until = unix("since"), unix("until")
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	var found []event
	for _, e := range l.events {
		wanted := l.unsorted || len(q["types"]) == 0 || slices.Contains(q["types"], e.kind)
		if !e.at.Before(since) && e.at.Before(until) && wanted && e.account == r.Header.Get("Bank-Account") &&
			time.Since(e.at) < horizon && !(e.delivered && q.Has("undelivered")) {
			found = append(found, e)
		}
	}
	slices.Reverse(found)
	slices.SortStableFunc(found, func(a, b event) int { return b.at.Compare(a.at) })
	if after := q.Get("after"); after != "" {
		found = found[slices.IndexFunc(found, func(e event) bool { return e.id == after })+1:]
	}
	more := len(found) > limit
	var texts []string
	for _, e := range found[:min(limit, len(found))] {
		texts = append(texts, e.body)
	}
	return fmt.Sprintf(`{"data":[%s],"has_more":%v}`, strings.Join(texts, ","), more)
}

// happens adds a payment's event.
func (l *list) happens(id, kind string, key onceward.Key, object string, at time.Time) *event {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event{id: id, kind: kind, at: at.Truncate(time.Second), body: string(l.Happened(id, kind, key, object, at).Body)})
	return &l.events[len(l.events)-1]
}

// news adds an event that concerns no operation.
func (l *list) news(id string, at time.Time) *event {
	return l.happens(id, "payment.succeeded", onceward.Key("none "+id), "none", at)
}

// ServeHTTP is the application's handler.
func (l *list) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	assert.NoError(l.T, err)
	id := between(string(text), `"id":"`, `"`)
	l.got = append(l.got, id)
	l.bodies = append(l.bodies, string(text))
	if l.handle != nil {
		l.handle(w, r, id)
	}
}

func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}

// catches makes a pass from a time, with l as the handler, and returns what came.
func (l *list) catches(from time.Time, adjust ...func(*onceward.CatchUp)) (result onceward.CaughtUp, got []string, err error) {
	l.T.Helper()
	opts := onceward.CatchUp{From: from, Types: []string{"*"}, Handler: l}
	for _, f := range adjust {
		f(&opts)
	}
	l.got, l.bodies = nil, nil
	result, err = l.CatchUp(l.T.Context(), "bank", opts)
	return result, l.got, err
}

// again is the option to read failed events again.
func again(failed []onceward.FailedEvent) func(*onceward.CatchUp) {
	return func(o *onceward.CatchUp) { o.Again = failed }
}

// of is the option to read an account's events.
func of(account string) func(*onceward.CatchUp) {
	return func(o *onceward.CatchUp) { o.Account = account }
}

// fails makes the handler answer 400 to events.
func (l *list) fails(ids ...string) {
	l.handle = func(w http.ResponseWriter, _ *http.Request, id string) {
		if slices.Contains(ids, id) {
			w.WriteHeader(http.StatusBadRequest)
		}
	}
}

// asks makes a payment under a context.
func (l *list) asks(ctx context.Context, options ...oncetest.Option) oncetest.Outcome {
	l.T.Helper()
	all := []oncetest.Option{oncetest.To(http.MethodPost, l.Box.URL+"/payments"), oncetest.JSON(`{"amount":10}`)}
	return l.Ask(ctx, append(all, options...)...)
}
