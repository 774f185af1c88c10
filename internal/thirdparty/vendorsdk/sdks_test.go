package vendorsdk_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plutov/paypal/v4"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"
	svix "github.com/svix/svix-webhooks/go"
	svixmodels "github.com/svix/svix-webhooks/go/models"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// payment is the name of the operation that all tests are about.
const payment = "invoice-991/charge"

// pay asks for the one effect and returns the ID of the created object.
type pay func(ctx context.Context) (id string, err error)

// sdk is a vendor's SDK and its provider.
type sdk struct {
	name     string
	provider func() providers.Provider
	answer   string // of the provider, with the ID "paid_1"

	// connect makes a client of the SDK, with as many retries as it makes by default
	// or with none. Without hc, the SDK uses its own client.
	connect func(hc *http.Client, baseURL string, retries bool) (pay, error)

	// status returns the status of an error of the SDK's own type, and the provider's text of it. It returns 0 for
	// any other error.
	status func(err error) (status int, text string)

	authorization string                    // the header by which the provider knows the caller
	sign          func(*http.Request) error // instead of that header
	tokens        int                       // requests for a token before the first payment
	keyless       bool                      // the request takes no key
	resends       bool                      // the contract allows a repeat after a lost answer
	lostOnly      bool                      // but not after a failure was received
	brief         bool                      // but not for as long as our policy rests
	ownClient     string                    // the effect of a replaced http.DefaultTransport: "" if the SDK's own client is routed, "missed" or "panics"
}

var sdks = []sdk{stripeGo, paypalClient, svixClient, twilioGo, resendGo, openaiGo, awsSDK, razorpayGo, mercadoPago}

// stripeGo makes up a key for each call, and repeats a call that met no answer, or
// one without Stripe's JSON, twice.
var stripeGo = sdk{
	name:     "stripe-go",
	provider: providers.Stripe,
	answer:   `{"id":"paid_1","object":"payment_intent","status":"succeeded"}`,
	connect: func(hc *http.Client, baseURL string, retries bool) (pay, error) {
		sc := stripeClient(hc, baseURL, retries)
		return func(ctx context.Context) (string, error) {
			intent, err := sc.V1PaymentIntents.Create(ctx, &stripe.PaymentIntentCreateParams{
				Amount:   stripe.Int64(4200),
				Currency: stripe.String(stripe.CurrencyEUR),
			})
			if err != nil {
				return "", err
			}
			return intent.ID, nil
		}, nil
	},
	status: func(err error) (int, string) {
		var own *stripe.Error
		if !errors.As(err, &own) {
			return 0, ""
		}
		return own.HTTPStatusCode, string(own.Code)
	},
	authorization: "Bearer sk_test_1",
	resends:       true,
}

func stripeClient(hc *http.Client, baseURL string, retries bool) *stripe.Client {
	backend := &stripe.BackendConfig{
		URL:           stripe.String(baseURL),
		HTTPClient:    hc,
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	}
	if !retries {
		backend.MaxNetworkRetries = stripe.Int64(0)
	}
	return stripe.NewClient("sk_test_1", stripe.WithBackends(stripe.NewBackendsWithConfig(backend)))
}

// paypalClient neither makes keys nor repeats anything. A caller that follows its README makes a key for each call.
// It asks for a token in the middle of the first call, with the call's own context.
var paypalClient = sdk{
	name:     "plutov/paypal",
	provider: providers.PayPal,
	answer:   `{"id":"paid_1","status":"COMPLETED"}`,
	connect: func(hc *http.Client, baseURL string, _ bool) (pay, error) {
		c, err := paypal.NewClient("client", "secret", baseURL)
		if err != nil {
			return nil, err
		}
		if hc != nil {
			c.SetHTTPClient(hc)
		}
		return func(ctx context.Context) (string, error) {
			order, err := c.CreateOrderWithPaypalRequestID(ctx, paypal.OrderIntentCapture, []paypal.PurchaseUnitRequest{{
				Amount: &paypal.PurchaseUnitAmount{Value: "42.00", Currency: "EUR"},
			}}, nil, nil, rand.Text())
			if err != nil {
				return "", err
			}
			return order.ID, nil
		}, nil
	},
	status: func(err error) (int, string) {
		var own *paypal.ErrorResponse
		if !errors.As(err, &own) {
			return 0, ""
		}
		return own.Response.StatusCode, own.Name
	},
	authorization: "Bearer A21AA",
	tokens:        1,
	resends:       true,
}

// svixClient makes a key for each call. It repeats a call three times that got no answer or a server's error.
var svixClient = sdk{
	name:     "svix",
	provider: func() providers.Provider { return providers.Svix() },
	answer:   `{"id":"paid_1","eventType":"invoice.paid","payload":{},"timestamp":"2026-11-21T00:00:00Z"}`,
	connect: func(hc *http.Client, baseURL string, retries bool) (pay, error) {
		u, err := url.Parse(baseURL)
		if err != nil {
			return nil, err
		}
		options := &svix.SvixOptions{ServerUrl: u, HTTPClient: hc}
		if !retries {
			options.RetrySchedule = &[]time.Duration{}
		}
		c, err := svix.New("testsk_1", options)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (string, error) {
			out, err := c.Message.Create(ctx, "app_1", svixmodels.MessageIn{
				EventType: "invoice.paid",
				Payload:   map[string]any{"invoice": "991"},
			}, nil)
			if err != nil {
				return "", err
			}
			return out.Id, nil
		}, nil
	},
	status: func(err error) (int, string) {
		var own *svix.Error
		if !errors.As(err, &own) {
			return 0, ""
		}
		return own.Status(), string(own.Body())
	},
	authorization: "Bearer testsk_1",
	ownClient:     "panics", // it asserts that http.DefaultTransport is an *http.Transport
}

func sdkNamed(name string) sdk {
	return sdks[slices.IndexFunc(sdks, func(s sdk) bool { return s.name == name })]
}

// at is the provider's contract for a server at another address.
func (s sdk) at(baseURL string) []providers.Provider {
	u, err := url.Parse(baseURL)
	if err != nil {
		panic(err)
	}
	p := s.provider()
	p.Hosts = []string{u.Host}
	return []providers.Provider{p}
}

// authorize adds the credential that the SDK adds.
func (s sdk) authorize(r *http.Request) error {
	if s.sign != nil {
		return s.sign(r)
	}
	if r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", s.authorization)
	}
	return nil
}

// wire notes the payments that a provider's server gets. It leaves out requests for a token.
type wire struct {
	mu   sync.Mutex
	keys []string
}

const tokenPath = "/v1/oauth2/token"

func (w *wire) see(path, key string) (nth int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if path != tokenPath || key != "" {
		w.keys = append(w.keys, key)
	}
	return len(w.keys)
}

// seen returns the keys of the payments, in their order.
func (w *wire) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.keys)
}

// box is the SDK's provider in a box.
type box struct {
	*providertest.Server
	wire
}

// inBox starts a box in which business answers the payments. If business is nil, they get the provider's usual
// answer.
func (s sdk) inBox(t *testing.T, business http.HandlerFunc) *box {
	t.Helper()
	if business == nil {
		business = says(http.StatusOK, s.answer)
	}
	b := &box{}
	b.Server = providertest.NewUnstartedServer(s.provider(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == tokenPath {
			says(http.StatusOK, `{"access_token":"A21AA","token_type":"Bearer","expires_in":32400}`)(w, r)
			return
		}
		business(w, r)
	}))
	b.Observe = func(r providertest.Request) { b.see(r.Path, r.Key) }
	b.Start()
	t.Cleanup(b.Close)
	return b
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// ours rests for at least ten minutes once a call has used up its attempts, longer
// than any test.
var ours = backoff.Policy{Initial: time.Millisecond, Max: 10 * time.Minute, MaxAttempts: 4}

// patient goes on until a request in flight is done.
var patient = backoff.Policy{Initial: time.Millisecond, Max: 10 * time.Millisecond, MaxAttempts: 100}

// process is a client of Onceward on a journal, and the SDK over it.
type process struct {
	*onceward.Client
	pay      pay
	replaced int // keys that gave way to the journal's
}

// start makes a process with the provider at baseURL.
func (s sdk) start(t *testing.T, path, baseURL string, policy backoff.Policy) *process {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	p := &process{}
	p.Client, err = onceward.New(onceward.Config{
		Journal:   j,
		Providers: s.at(baseURL),
		Authorize: s.authorize,
		Backoff:   policy,
		Trace:     &onceward.Trace{KeyReplaced: func(context.Context, onceward.Operation) { p.replaced++ }},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	p.pay, err = s.connect(p.HTTPClient(), baseURL, true)
	require.NoError(t, err)
	return p
}

// operation returns the journal's record under a name or, if it is unnamed, a key.
func (p *process) operation(t *testing.T, id string) onceward.Operation {
	t.Helper()
	var ref onceward.Ref
	for op, err := range p.Operations(t.Context(), onceward.Filter{}) {
		require.NoError(t, err)
		if op.ID == id {
			ref = op.Ref
		}
	}
	op, err := p.Operation(t.Context(), ref)
	require.NoError(t, err)
	return op
}

// named is the test's context with the payment's name.
func named(t *testing.T) context.Context { return onceward.WithOperation(t.Context(), payment) }

// requireOurs checks that an error of the SDK is ours inside, of that kind.
func requireOurs(t *testing.T, err error, kind error, s sdk) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var e *onceward.Error
	require.ErrorAs(t, err, &e)
	status, _ := s.status(err)
	require.Zero(t, status, "it is not the SDK's own")
	if e.Operation.State == journal.StatePending {
		require.True(t, e.Operation.DueAt.After(time.Now()))
	}
}
