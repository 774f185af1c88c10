package providertest_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// receiving is how a provider's events are signed and verified.
type receiving struct {
	secret   string
	verifier *webhook.Verifier // nil: by nothing here
}

func receivers(t *testing.T) map[string]receiving {
	const text = "whsec_of_these_tests"
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	require.NoError(t, err)
	made := func(v *webhook.Verifier, err error) *webhook.Verifier {
		require.NoError(t, err)
		return v
	}
	wise := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}))
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	return map[string]receiving{
		"stripe":         {text, made(webhook.Stripe(text))},
		"adyen":          {hexKey, made(webhook.AdyenPlatform(hexKey))},
		"paypal":         {text, nil},
		"gocardless":     {text, made(webhook.GoCardless(text))},
		"checkout.com":   {text, made(webhook.Checkout(text))},
		"mollie":         {text, made(webhook.Mollie(text))},
		"wise":           {wise, made(webhook.Wise(string(block[:len(block)-1])))},
		"razorpay":       {text, made(webhook.Razorpay(text))},
		"moderntreasury": {text, made(webhook.ModernTreasury(text))},
		"dwolla":         {text, made(webhook.Dwolla(text))},
		"increase":       {text, made(webhook.Increase(text))},
	}
}

// posted is a webhook as it came.
type posted struct {
	header http.Header
	body   []byte
	err    error // of its verification
}

// inbox keeps the messages that are posted to it.
type inbox struct {
	mu   sync.Mutex
	came []posted
	by   func(url string) *webhook.Verifier
	url  string
}

func (i *inbox) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if v := i.by(i.url); err == nil && v != nil {
		_, err = v.Verify(r, body)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.came = append(i.came, posted{r.Header, body, err})
}

// Every adapter's events, as the box sends them, are verified. From them a client learns which operations took
// effect.
func TestAdaptersEvents(t *testing.T) {
	t.Parallel()
	by := receivers(t)
	spoken := map[string]bool{}
	for _, s := range allSought() {
		t.Run(s.name, func(t *testing.T) {
			receiver := by[s.provider.Name]
			box := &inbox{by: func(url string) *webhook.Verifier {
				if s.provider.Name != "square" {
					return receiver.verifier
				}
				v, err := webhook.Square(url, "whsec_of_these_tests")
				assert.NoError(t, err)
				return v
			}}
			if s.provider.Name == "square" {
				receiver.secret = "whsec_of_these_tests"
			}
			hooks := providertest.ServeInMemory(box)
			defer hooks.Close()
			srv := providertest.NewUnstartedServerInMemory(s.provider, s.business())
			srv.EventClient = hooks.Client()
			if s.provider.Name == "paypal" {
				srv.SignEvent = func(_ providertest.Signing, _ http.Header, body []byte) ([]byte, error) { return body, nil }
			}
			srv.Start()
			defer srv.Close()
			box.url = hooks.URL + "/hooks"
			srv.Events(box.url, receiver.secret)

			p := srv.Provider()
			router, err := tables.NewRouter([]providers.Provider{p})
			require.NoError(t, err)
			req, m := s.request(srv.URL, 1)
			e := endpointOf(&p, router.Route(req.Method, req.URL).For(m).Endpoint)
			about := lookup.Subject{
				URL: req.URL, Header: req.Header, Values: tables.NewCompared(&p, e).Values(req.Method, req.URL, m),
				First: time.Now(), Last: time.Now().Add(time.Second),
			}
			if e.Key.Place != providers.KeyNone {
				about.Key = keyed(1)
			}
			if reference, present, _ := tables.Reference(e.Reference).Carried(m); present {
				about.Reference, about.ReferenceOurs = reference, true
			}
			status, _, body := whole(t, srv.Client(), req)
			require.Less(t, status, 300, "%s", body)
			srv.Advance(time.Second)

			effect := srv.Effects()[0]
			// A row identifies a request by its key or its reference. A row without a path for either identifies it
			// by the known object.
			tells := func(r *providers.EventRule) bool {
				return r.Key != "" && about.Key != "" || r.Reference != "" && about.Reference != "" || r.Key == "" && r.Reference == ""
			}
			var told, thin, others int
			for _, came := range box.came {
				require.NoError(t, came.err, "%s", came.body)
				heard, problem := lookup.ReadEvents(&p, came.header, came.body)
				require.Empty(t, problem)
				require.NotEmpty(t, heard, "%s", came.body)
				for _, h := range heard {
					known := about
					if h.Rule.Key == "" && h.Rule.Reference == "" { // it identifies the request by the known object
						known.Object = effect.Object
					}
					fits, _, why := h.Of(e, &known)
					switch {
					case h.Rule.Thin:
						thin++
						assert.Equal(t, effect.Object, h.Object)
					case fits && h.Rule.Is == providers.TookEffect:
						told++
						assert.Equal(t, effect.Object, h.Object)
						assert.False(t, h.At.IsZero() && h.ID == "")
					case tells(h.Rule):
						others++
						t.Logf("%s: %v, %s", h.Rule.Equals, h.Rule.Is, why)
					}
				}
			}
			for _, rule := range p.Events {
				if rule.Endpoint == e.Pattern && (rule.Is == providers.TookEffect || rule.Thin) && tells(&rule) {
					assert.Positive(t, told+thin, "rows speak of it")
					spoken[p.Name] = true
				}
			}
			assert.Zero(t, others)
		})
	}
	assert.Greater(t, len(spoken), 7, "%v", spoken)
}
