package lookup_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// noon is when operations are first sent, if not said otherwise.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// payment is an entry in the ledger of a provider.
type payment struct {
	ID        string            `json:"id"`
	Amount    json.Number       `json:"amount"`
	Currency  string            `json:"currency"`
	Reference string            `json:"reference,omitempty"`
	Customer  string            `json:"customer"`
	Status    string            `json:"status"`
	Created   int64             `json:"created"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// pay is an endpoint whose objects are found by their reference, in pages of two.
func pay() (*providers.Provider, *providers.Endpoint) {
	e := providers.Endpoint{
		Pattern:   "POST /v1/customers/{customer}/payments",
		Object:    "payment",
		Reference: providers.Reference{Place: providers.KeyJSONField, Name: "reference"},
		Lookups: []providers.Lookup{{
			By:         providers.ByReference,
			Path:       "/v1/payments",
			Query:      "customer={path.customer}&reference={reference}&from={since}&to={until}",
			TimeLayout: "unix",
			Items:      "data[]",
			Same: []providers.Same{
				{Field: "reference", Is: "{reference}"},
				{Field: "amount", Is: "{request.amount}", As: providers.AsDecimal},
				{Field: "currency", Is: "{request.currency}", As: providers.AnyCase},
				{Field: "customer", Is: "{path.customer}"},
			},
			ID: "id", Created: "created",
			Next: providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", More: "more"},
			Means: []providers.Meaning{
				{Field: "status", Equals: "paid", Is: providers.TookEffect},
				{Field: "status", Equals: "failed", Is: providers.Refused},
				{Field: "status", Equals: "pending", Is: providers.InProgress},
				{Field: "status", Equals: "refunded", Is: providers.Reversed},
			},
			SameShape: true,
			Needs:     "payments:read",
		}},
	}
	p := &providers.Provider{Name: "box", Hosts: []string{"api.example.com"}, Answers: []string{"application/json"}, Endpoints: []providers.Endpoint{e}}
	return p, &p.Endpoints[0]
}

// sent is the operation of a request for 10.00 USD.
func sent(t testing.TB, p *providers.Provider, e *providers.Endpoint, customer, reference, amount string) lookup.Subject {
	t.Helper()
	u, err := url.Parse("https://api.example.com/v1/customers/" + customer + "/payments")
	require.NoError(t, err)
	body := []byte(`{"amount":` + amount + `,"currency":"USD"}`)
	h := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}, "Account": {"a"}}
	return lookup.Subject{
		URL: u, Header: h, Reference: reference, First: noon, Last: noon.Add(time.Minute),
		Values: tables.NewCompared(p, e).Values(http.MethodPost, u, tables.Message{Header: h, Body: body}),
	}
}

// paid is the object of such an operation.
func paid(id, reference string) payment {
	return payment{ID: id, Amount: "10", Currency: "usd", Reference: reference, Customer: "c", Status: "paid", Created: noon.Unix() + 1}
}

// box answers look-ups from a ledger.
type box struct {
	ledger    []payment
	size      int  // of a page; 0: 2
	unfilter  bool // it ignores the filters of a request
	circle    bool // every page is followed by the second
	endless   bool // every page is followed by another
	requests  []*http.Request
	lastQuery url.Values
}

func (b *box) answer(r *http.Request) (status int, header http.Header, body []byte) {
	b.requests = append(b.requests, r)
	q := r.URL.Query()
	b.lastQuery = q
	var found []payment
	for _, p := range b.ledger {
		from, _ := strconv.ParseInt(q.Get("from"), 10, 64)
		to, _ := strconv.ParseInt(q.Get("to"), 10, 64)
		within := !q.Has("from") || from <= p.Created && p.Created <= to
		filtered := (!q.Has("reference") || q.Get("reference") == p.Reference) && (!q.Has("customer") || q.Get("customer") == p.Customer)
		if b.unfilter || within && filtered {
			found = append(found, p)
		}
	}
	size := b.size
	if size == 0 {
		size = 2
	}
	at, _ := strconv.Atoi(q.Get("cursor"))
	end := min(at+size, len(found))
	page := map[string]any{"data": found[min(at, end):end], "more": end < len(found)}
	if end == min(at, end) {
		page["data"] = []payment{}
	}
	if end < len(found) {
		page["next"] = strconv.Itoa(end)
	}
	if b.circle {
		page["more"], page["next"] = true, strconv.Itoa(size)
	}
	if b.endless {
		page["more"], page["next"] = true, strconv.Itoa(at+size)
		page["data"] = []payment{{ID: fmt.Sprint("other", at), Reference: "other"}}
	}
	body, _ = json.Marshal(page)
	return http.StatusOK, http.Header{"Content-Type": {"application/json"}}, body
}

// swept is a sweep that was read to its end.
func swept(t testing.TB, p *providers.Provider, e *providers.Endpoint, about lookup.Subject, answer func(*http.Request) (int, http.Header, []byte)) *lookup.Sweep {
	t.Helper()
	s, err := lookup.Plan(p, e, &e.Lookups[0], about, about.Window(noon.Add(10*time.Minute)))
	require.NoError(t, err)
	for r := s.Next(); r != nil; r = s.Next() {
		s.Read(answer(r))
	}
	return s
}

func free(string) bool { return false }

// look makes one look-up for one operation and returns its finding.
func look(t testing.TB, p *providers.Provider, e *providers.Endpoint, about lookup.Subject, answer func(*http.Request) (int, http.Header, []byte)) lookup.Finding {
	t.Helper()
	return swept(t, p, e, about, answer).Match(about, free)
}
