package providers_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// struck is the fault of a hiccup for the first request. Its name says whether the request took effect.
type struck struct {
	name  string
	fault func(h hiccup) providertest.Fault
}

var strikes = []struck{
	{"no answer, executed", func(hiccup) providertest.Fault { return providertest.DropAfter() }},
	{"503, executed", func(hiccup) providertest.Fault { return providertest.PageAfter(http.StatusServiceUnavailable) }},
	{"no answer, not executed", func(hiccup) providertest.Fault { return providertest.DropBefore() }},
	{"503, not executed", func(hiccup) providertest.Fault { return providertest.PageBefore(http.StatusServiceUnavailable) }},
	{"429", func(hiccup) providertest.Fault { return providertest.None() }},
}

// sends is a transport that answers the first request for an effect with the provider's own 429, if limit is set.
type sends struct {
	http.RoundTripper
	limit func() *http.Response // nil: no more
}

func (s *sends) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.limit == nil || r.Method != http.MethodPost {
		return s.RoundTripper.RoundTrip(r)
	}
	resp := s.limit()
	s.limit, resp.Request = nil, r
	if r.Body != nil {
		r.Body.Close()
	}
	return resp, nil
}

// lives runs an operation through a hiccup at its endpoint, and ten virtual minutes after it. It returns the
// operation as the journal has it then.
func (h hiccup) lives(t *testing.T, s suite, strike struck, reconcile *onceward.Reconcile) (op onceward.Operation) {
	rt := s.route(t, h.request)
	synctest.Test(t, func(t *testing.T) {
		srv := providertest.NewUnstartedServerInMemory(*rt.Provider, h.business())
		srv.StartTLS()
		defer srv.Close()
		j := memory.New()
		via := &sends{RoundTripper: srv.Client().Transport}
		if strike.name == "429" {
			via.limit = h.limited
		}
		table := srv.Provider()
		table.WebhookSchemes = nil // PayPal's stands for another one here
		client, err := onceward.New(onceward.Config{
			Journal: j, Providers: []providers.Provider{table}, HTTPClient: &http.Client{Transport: via}, Reconcile: reconcile,
			Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer of this test")
				return nil
			},
		})
		require.NoError(t, err)
		defer client.Shutdown(context.Background())
		if reconcile != nil && len(rt.Provider.WebhookSchemes) > 0 {
			delivered(t, client, srv, rt.Provider.Name)
		}

		asked, m := request(t, h.request)
		ctx, cancel := context.WithTimeout(onceward.WithOperation(t.Context(), "invoice-1"), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, asked.Method, srv.URL+asked.URL.RequestURI(), strings.NewReader(string(m.Body)))
		require.NoError(t, err)
		req.Header = asked.Header
		srv.Script(strike.fault(h))
		if resp, err := client.HTTPClient().Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		running, stop := context.WithTimeout(seam.Seldom(t.Context(), time.Minute), 10*time.Minute) // no other process leaves operations
		defer stop()
		assert.ErrorIs(t, client.Run(running), context.DeadlineExceeded)
		op, err = client.Operation(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		srv.AssertSettledTruly(t, j)
	})
	return op
}

// wiseKey signs Wise's events.
var wiseKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// delivered has the box deliver its events to the client. They are in the provider's scheme if package webhook has
// one that a box can sign in.
func delivered(t *testing.T, client *onceward.Client, srv *providertest.Server, name string) {
	t.Helper()
	secret, verifier := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", (*webhook.Verifier)(nil)
	var err error
	made := func(v *webhook.Verifier, problem error) { verifier, err = v, problem }
	var hooks http.Handler
	here := providertest.ServeInMemory(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hooks.ServeHTTP(w, r) }))
	t.Cleanup(here.Close)
	switch name {
	case "stripe":
		made(webhook.Stripe(secret))
	case "adyen":
		secret = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
		made(webhook.Adyen(secret))
	case "square":
		made(webhook.Square(here.URL, secret))
	case "gocardless":
		made(webhook.GoCardless(secret))
	case "checkout.com":
		made(webhook.Checkout(secret))
	case "mollie":
		made(webhook.Mollie(secret))
	case "wise":
		private := wiseKey()
		public, problem := x509.MarshalPKIXPublicKey(&private.PublicKey)
		require.NoError(t, problem)
		secret = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}))
		made(webhook.Wise(strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))))
	case "razorpay":
		made(webhook.Razorpay(secret))
	case "moderntreasury":
		made(webhook.ModernTreasury(secret))
	case "dwolla":
		made(webhook.Dwolla(secret))
	case "increase":
		made(webhook.Increase(secret))
	default: // PayPal's needs a certificate
		require.Equal(t, "paypal", name)
		srv.SignEvent = func(g providertest.Signing, h http.Header, body []byte) ([]byte, error) {
			return providertest.Sign("of standard webhooks", g, h, body)
		}
		made(webhook.StandardWebhooks(secret))
	}
	require.NoError(t, err)
	hooks = client.WebhookHandler(name, verifier, nil)
	srv.EventClient = here.Client()
	srv.Events(here.URL, secret)
}

// business is the handler that the box executes.
func (h hiccup) business() http.Handler {
	switch {
	case strings.Contains(h.request, "dwolla"):
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://api.dwolla.com/transfers/tr_1")
			w.WriteHeader(http.StatusCreated)
		})
	case strings.Contains(h.request, "marqeta"): // an object has the token of its request
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.Copy(w, r.Body)
		})
	case strings.HasPrefix(h.in, "{"):
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, h.in)
		})
	case h.in != "":
		return providertest.ObjectsIn(h.in, "obj_")
	}
	return providertest.Objects("obj_")
}

// limited is the provider's own 429.
func (h hiccup) limited() *http.Response {
	header, body := h.limits()
	resp := &http.Response{
		Status: "429 Too Many Requests", StatusCode: http.StatusTooManyRequests, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	if name, value, found := strings.Cut(header, ": "); found {
		resp.Header.Set(name, value)
	}
	return resp
}

// Each page of docs/providers shows the state of an operation ten virtual minutes after one hiccup, without
// Config.Reconcile and with it. Every settled operation agrees with the provider's ledger.
func TestDocumentedHiccups(t *testing.T) {
	t.Parallel()
	s := all(t)
	header := " | " + strings.Join(strikeNames(), " | ") + " |\n|---|" + strings.Repeat("---|", len(strikes)) + "\n"
	rows := map[string]string{}
	before, after := make([]int, len(strikes)), make([]int, len(strikes))
	for _, h := range hiccups {
		rt := s.route(t, h.request)
		cells := make([]string, len(strikes))
		t.Run(rt.Provider.Name+" "+rt.Endpoint.Pattern, func(t *testing.T) {
			for i, strike := range strikes {
				without := h.lives(t, s, strike, nil)
				with := h.lives(t, s, strike, &onceward.Reconcile{FillReferences: true})
				if without.State == journal.StateUnknown {
					before[i]++
				}
				if with.State == journal.StateUnknown {
					after[i]++
				}
				cells[i] = fate(without, with)
			}
		})
		head, _, _ := strings.Cut(strings.TrimPrefix(h.request, "POST "), "\n")
		rows[pageFile(*rt.Provider)] += fmt.Sprintf("| `%s` | %s |\n", head, strings.Join(cells, " | "))
	}
	for _, p := range adapters() {
		documented(t, pagesFolder+"/"+pageFile(p), "hiccups", "| `POST`"+header+rows[pageFile(p)])
	}
	var sums strings.Builder
	sums.WriteString("| operations" + header)
	for _, sum := range []struct {
		name   string
		counts []int
	}{{"unknown without `Config.Reconcile`", before}, {"unknown with it", after}} {
		fmt.Fprintf(&sums, "| %s, of %d | %s |\n", sum.name, len(hiccups), strings.Trim(strings.ReplaceAll(fmt.Sprint(sum.counts), " ", " | "), "[]"))
	}
	documented(t, pagesFolder+"/README.md", "hiccups", sums.String())
	assert.Equal(t, []int{7, 11, 23, 31, 22}, after)
}

// strikeNames are the columns.
func strikeNames() (names []string) {
	for _, s := range strikes {
		names = append(names, s.name)
	}
	return names
}

// fate summarizes the end of an operation without and with Config.Reconcile.
func fate(without, with onceward.Operation) string {
	switch {
	case without.State == journal.StateCompleted && with.State == journal.StateCompleted:
		return "settled"
	case with.State == journal.StateCompleted && len(with.Evidence) > 0:
		return "**found**"
	case with.State != journal.StateUnknown:
		return with.State.String()
	case strings.Contains(with.Attention, "has no look-up"):
		return "unknown: no look-up"
	case with.Attention != "":
		return "unknown: " + with.Attention
	}
	return "unknown: not found"
}
