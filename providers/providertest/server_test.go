package providertest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

const day = 24 * time.Hour

// boxes are the adapters, each with a path that takes a key.
var boxes = []struct {
	provider providers.Provider
	path     string
	key      string // as it stands in the header
}{
	{providers.Stripe(), "/v1/charges", "k1"},
	{providers.Adyen(""), "/v71/payments", "k1"},
	{providers.IETF(day), "/payments", `"k1"`},
	{providers.Raw(day), "/payments", "k1"},
}

// created is a business that always succeeds.
var created = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"ch_1"}`)
})

func saying(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func start(t *testing.T, p providers.Provider, h http.Handler) *providertest.Server {
	t.Helper()
	srv := providertest.NewServer(p, h)
	t.Cleanup(srv.Close)
	return srv
}

// client makes a new connection for each request: net/http repeats a keyed
// request by itself if a kept one breaks.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send makes one request and returns the answer with its body read.
func send(ctx context.Context, method, url, key, body string, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), err
}

func post(t *testing.T, url, key, body string, header ...string) (*http.Response, string) {
	t.Helper()
	resp, got, err := send(t.Context(), http.MethodPost, url, key, body, header...)
	require.NoError(t, err)
	return resp, got
}

// verdict is how a client that may have sent before judges an answer.
func verdict(t *testing.T, srv *providertest.Server, path string, resp *http.Response, body string) providers.Verdict {
	t.Helper()
	router, err := tables.NewRouter([]providers.Provider{srv.Provider()})
	require.NoError(t, err)
	req, err := http.NewRequest(http.MethodPost, srv.URL+path, nil)
	require.NoError(t, err)
	route := router.Route(http.MethodPost, req.URL)
	require.NotNil(t, route.Provider, "the server's provider does not serve it")
	return route.Classify(tables.Answer{Status: resp.StatusCode, Header: resp.Header, Body: []byte(body), Later: true}).Verdict
}

// A repeat is replayed with the provider's mark and one effect.
func TestRepeatIsReplayedWithTheMark(t *testing.T) {
	for _, box := range boxes {
		t.Run(box.provider.Name, func(t *testing.T) {
			srv := start(t, box.provider, created)
			for n := range 3 {
				resp, body := post(t, srv.URL+box.path, box.key, "amount=1")
				assert.Equal(t, http.StatusCreated, resp.StatusCode)
				assert.Equal(t, `{"id":"ch_1"}`, body)
				if mark := box.provider.ReplayHeader; mark != "" {
					assert.Equal(t, n > 0, resp.Header.Get(mark) == box.provider.ReplayValue, "request %d", n+1)
				}
			}
			assert.Equal(t, 1, srv.EffectsFor("k1"))
			assert.Equal(t, 3, srv.Requests())
			e := srv.Effects()[0]
			assert.Equal(t, 1, e.Seq)
			assert.Equal(t, 1, e.Request)
			assert.Equal(t, "k1", e.Key)
			assert.Equal(t, http.MethodPost, e.Method)
			assert.Equal(t, box.path, e.Path)
			assert.Equal(t, "amount=1", string(e.Body))
			assert.Equal(t, http.StatusCreated, e.Status)
		})
	}
}

// A second request meanwhile is refused as a concurrent one, and not executed.
func TestConcurrentSecondRequestIsRefused(t *testing.T) {
	for _, box := range boxes {
		t.Run(box.provider.Name, func(t *testing.T) {
			entered, leave := make(chan struct{}), make(chan struct{})
			srv := start(t, box.provider, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				<-leave
				created(w, r)
			}))
			first := make(chan int, 1)
			go func() {
				status := 0
				if resp, _, err := send(context.Background(), http.MethodPost, srv.URL+box.path, box.key, "amount=1"); err == nil {
					status = resp.StatusCode
				}
				first <- status
			}()
			<-entered
			resp, body := post(t, srv.URL+box.path, box.key, "amount=1")
			close(leave)
			assert.Equal(t, providers.InFlight.String(), verdict(t, srv, box.path, resp, body).String())
			assert.Equal(t, "1", resp.Header.Get("Retry-After"))
			assert.Equal(t, http.StatusCreated, <-first)
			assert.Equal(t, 1, srv.EffectsFor("k1"))
		})
	}
}

// Another request under the key is misuse if the provider detects that.
func TestAnotherRequestUnderTheKeyIsMisuse(t *testing.T) {
	for _, box := range boxes {
		t.Run(box.provider.Name, func(t *testing.T) {
			srv := start(t, box.provider, created)
			post(t, srv.URL+box.path, box.key, "amount=1")
			resp, body := post(t, srv.URL+box.path, box.key, "amount=2")
			want := providers.Misuse
			if box.provider.Name == "adyen" { // publishes no answer to it: it goes unnoticed
				want = providers.Final
			}
			assert.Equal(t, want.String(), verdict(t, srv, box.path, resp, body).String())
			assert.Equal(t, 1, srv.EffectsFor("k1"))
		})
	}
}

// A key is forgotten at the end of its retention.
func TestKeyIsForgottenAfterItsRetention(t *testing.T) {
	for _, box := range boxes {
		t.Run(box.provider.Name, func(t *testing.T) {
			srv := start(t, box.provider, created)
			router, err := tables.NewRouter([]providers.Provider{srv.Provider()})
			require.NoError(t, err)
			req, err := http.NewRequest(http.MethodPost, srv.URL+box.path, nil)
			require.NoError(t, err)
			retention := router.Route(http.MethodPost, req.URL).Endpoint.Retention

			post(t, srv.URL+box.path, box.key, "amount=1")
			srv.Advance(retention - time.Hour)
			post(t, srv.URL+box.path, box.key, "amount=1")
			assert.Equal(t, 1, srv.EffectsFor("k1"), "an hour before the end")
			srv.Advance(time.Hour)
			post(t, srv.URL+box.path, box.key, "amount=1")
			assert.Equal(t, 2, srv.EffectsFor("k1"), "at the end")
			effects := srv.Effects()
			assert.GreaterOrEqual(t, effects[1].At.Sub(effects[0].At), retention)
		})
	}
}

func TestAMalformedKeyIsRefused(t *testing.T) {
	for _, box := range boxes {
		key := `"k1"`
		if box.provider.Name == "ietf" {
			key = "k1"
		}
		srv := start(t, box.provider, created)
		resp, body := post(t, srv.URL+box.path, key, "amount=1")
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, box.provider.Name)
		assert.NotContains(t, body, "k1", box.provider.Name)
		assert.Empty(t, srv.Effects(), box.provider.Name)
	}
}

func TestStoredAnswersFollowTheTable(t *testing.T) {
	const (
		declined = `{"error":{"type":"card_error"}}`
		missing  = `{"error":{"type":"invalid_request_error","code":"parameter_missing"}}`
	)
	successes := providers.Raw(day)
	successes.Endpoints[0].Remembers = providers.Successes
	nothing := providers.Raw(day)
	nothing.Endpoints[0].Remembers, nothing.Endpoints[0].Retention = providers.Nothing, 0
	for _, tc := range []struct {
		name     string
		provider providers.Provider
		path     string
		handler  http.Handler
		runs     int // of two requests
		effects  int
	}{
		{"an executed refusal is", providers.Stripe(), "/v1/charges", saying(402, declined), 1, 0},
		{"an executed 500 is", providers.Stripe(), "/v1/charges", saying(500, declined), 1, 0},
		{"a validation error is not", providers.Stripe(), "/v1/charges", saying(400, missing), 2, 0},
		{"a refused credential is not", providers.Stripe(), "/v1/charges", saying(401, declined), 2, 0},
		{"a rate limit is not", providers.Stripe(), "/v1/charges", saying(429, ""), 2, 0},
		{"a transient error of Adyen's is not", providers.Adyen(""), "/v71/payments", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("transient-error", "true")
			w.WriteHeader(http.StatusServiceUnavailable)
		}), 2, 0},
		{"a failure under Stripe v2 is not", providers.Stripe(), "/v2/core/accounts", saying(500, declined), 2, 0},
		{"a success under Stripe v2 is", providers.Stripe(), "/v2/core/accounts", created, 1, 1},
		{"a failure is not kept where successes are", successes, "/", saying(500, ""), 2, 0},
		{"a success is kept where successes are", successes, "/", created, 1, 1},
		{"nothing is kept if nothing is remembered", nothing, "/", created, 2, 2},
		{"nothing is, on a path that no pattern matches", providers.Stripe(), "/v3/x", created, 2, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runs := 0
			srv := start(t, tc.provider, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				tc.handler.ServeHTTP(w, r)
			}))
			one, oneBody := post(t, srv.URL+tc.path, "k1", "amount=1")
			two, twoBody := post(t, srv.URL+tc.path, "k1", "amount=1")
			assert.Equal(t, tc.runs, runs)
			assert.Len(t, srv.Effects(), tc.effects)
			assert.Equal(t, one.StatusCode, two.StatusCode)
			assert.Equal(t, oneBody, twoBody)
			if mark := tc.provider.ReplayHeader; mark != "" {
				assert.Equal(t, tc.runs == 1, two.Header.Get(mark) != "")
			}
		})
	}
}

// A key that was not kept is free for another request.
func TestKeyThatWasNotKeptIsFree(t *testing.T) {
	srv := start(t, providers.Stripe(), saying(401, ""))
	post(t, srv.URL+"/v1/charges", "k1", "amount=1")
	resp, _ := post(t, srv.URL+"/v1/charges", "k1", "amount=2")
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
}

func TestWithoutAGuardBothExecute(t *testing.T) {
	both := make(chan struct{}, 2)
	leave := make(chan struct{})
	srv := start(t, providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		both <- struct{}{}
		<-leave
		created(w, r)
	}))
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, _, err := send(context.Background(), http.MethodPost, srv.URL+"/v2/core/accounts", "k1", "{}")
			done <- err
		}()
	}
	<-both
	<-both
	close(leave)
	assert.NoError(t, <-done)
	assert.NoError(t, <-done)
	assert.Equal(t, map[string]int{"k1": 2}, srv.Duplicates(func(e providertest.Effect) string { return e.Key }))
}

// Accounts and credentials have keys of their own.
func TestKeysOfAccountsAndCredentials(t *testing.T) {
	scoped := providers.Raw(day)
	scoped.CredentialScoped = true
	for _, tc := range []struct {
		name     string
		provider providers.Provider
		path     string
		header   string
		effects  int
	}{
		{"another account", providers.Stripe(), "/v1/charges", "Stripe-Account", 2},
		{"another credential, if keys are scoped to it", scoped, "/", "Authorization", 2},
		{"another credential elsewhere", providers.Raw(day), "/", "Authorization", 1},
	} {
		srv := start(t, tc.provider, created)
		post(t, srv.URL+tc.path, "k1", "amount=1", tc.header, "one")
		post(t, srv.URL+tc.path, "k1", "amount=1", tc.header, "two")
		assert.Equal(t, tc.effects, srv.EffectsFor("k1"), tc.name)
	}
}

func TestRequestsWithoutAKeyExecuteEachTime(t *testing.T) {
	srv := start(t, providers.Stripe(), created)
	post(t, srv.URL+"/v1/charges", "", "ref=1")
	post(t, srv.URL+"/v1/charges", "", "ref=1")
	_, _, err := send(t.Context(), http.MethodDelete, srv.URL+"/v1/customers/cus_1", "ignored", "")
	require.NoError(t, err)
	_, _, err = send(t.Context(), http.MethodGet, srv.URL+"/v1/charges/ch_1", "", "")
	require.NoError(t, err)

	effects := srv.Effects()
	require.Len(t, effects, 3, "a GET has no effect")
	for _, e := range effects {
		assert.Empty(t, e.Key)
	}
	assert.Equal(t, map[string]int{"ref=1": 2}, srv.Duplicates(func(e providertest.Effect) string { return string(e.Body) }))
	assert.Empty(t, srv.Duplicates(func(e providertest.Effect) string { return e.Key }))
}

func TestAHandlerThatPanicsLeavesTheKeyFree(t *testing.T) {
	var panicked atomic.Bool
	srv := start(t, providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !panicked.Swap(true) {
			panic(http.ErrAbortHandler)
		}
		created(w, r)
	}))
	_, _, err := send(t.Context(), http.MethodPost, srv.URL+"/v1/charges", "k1", "")
	require.Error(t, err)
	resp, _ := post(t, srv.URL+"/v1/charges", "k1", "")
	assert.Equal(t, http.StatusCreated, resp.StatusCode)
	assert.Equal(t, 1, srv.EffectsFor("k1"))
}

func TestTheHandlerSeesTheRequestAsItWasSent(t *testing.T) {
	var method, uri, body, key string
	srv := start(t, providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		method, uri, body, key = r.Method, r.URL.RequestURI(), string(content), r.Header.Get("Idempotency-Key")
	}))
	post(t, srv.URL+"/v1/charges?expand=x", "k1", "amount=1")
	assert.Equal(t, []string{http.MethodPost, "/v1/charges?expand=x", "amount=1", "k1"}, []string{method, uri, body, key})
}

// Observe sees each request before its effect.
func TestObserveBeforeTheEffect(t *testing.T) {
	srv := providertest.NewUnstartedServer(providers.IETF(day), created)
	var seen []providertest.Request
	var effects []int
	srv.Observe = func(r providertest.Request) {
		seen = append(seen, r)
		effects = append(effects, len(srv.Effects()))
	}
	srv.Script(providertest.None(), providertest.DropAfter())
	srv.Start()
	post(t, srv.URL+"/payments", `"k1"`, "amount=1")
	_, _, err := send(t.Context(), http.MethodPost, srv.URL+"/payments", `"k2"`, "amount=2")
	srv.Close()
	require.Error(t, err)

	require.Len(t, seen, 2)
	assert.Equal(t, []int{0, 1}, effects)
	assert.Equal(t, 2, seen[1].Number)
	assert.Equal(t, "k2", seen[1].Key)
	assert.Equal(t, "/payments", seen[1].Path)
	assert.Equal(t, "amount=2", string(seen[1].Body))
	assert.Equal(t, `"k2"`, seen[1].Header.Get("Idempotency-Key"))
	assert.Equal(t, []string{"none", "drop after the effect"}, []string{seen[0].Fault.String(), seen[1].Fault.String()})
}

func TestRetryAfterIsTheConfiguredOne(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		0: "1", time.Millisecond: "1", time.Second: "1", 1500 * time.Millisecond: "2", time.Hour: "3600", -1: "",
	} {
		entered, leave := make(chan struct{}), make(chan struct{})
		srv := providertest.NewUnstartedServer(providers.Raw(day), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(entered)
			<-leave
		}))
		srv.RetryAfter = wait
		srv.Start()
		go func() { _, _, _ = send(context.Background(), http.MethodPost, srv.URL, "k1", "") }()
		<-entered
		resp, _ := post(t, srv.URL, "k1", "")
		close(leave)
		assert.Equal(t, want, resp.Header.Get("Retry-After"), wait)
		srv.Close()
	}
}

func TestATableThatIsNotValidPanics(t *testing.T) {
	assert.Panics(t, func() { providertest.NewServer(providers.Raw(0), created) })
}

// A table without an answer for in flight gets a conflict.
func TestInFlightWithoutARuleIsAConflict(t *testing.T) {
	p := providers.Raw(day)
	p.Endpoints[0].Rules = nil
	entered, leave := make(chan struct{}), make(chan struct{})
	srv := start(t, p, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-leave
	}))
	go func() { _, _, _ = send(context.Background(), http.MethodPost, srv.URL, "k1", "") }()
	<-entered
	resp, _ := post(t, srv.URL, "k1", "")
	close(leave)
	assert.Equal(t, http.StatusConflict, resp.StatusCode)
}

func TestATableOfOnesOwnIsAnsweredFromAsWell(t *testing.T) {
	p := providers.Provider{
		Name:         "ledger",
		ReplayHeader: "X-Replayed",
		Endpoints: []providers.Endpoint{{
			Pattern:       "POST /v1/",
			Key:           providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key", MaxLength: 36},
			Remembers:     providers.Everything,
			InFlightGuard: true,
			Rules: []providers.Rule{
				{Header: "X-Busy", Field: "errors[].reason", Equals: "in_progress", Verdict: providers.InFlight},
				{Status: 417, Header: "X-Mismatch", Value: "body", Field: "error", Verdict: providers.Misuse},
			},
		}},
	}
	srv := start(t, p, created)
	post(t, srv.URL+"/v1/transfers", "k1", "amount=1")
	srv.Advance(100 * 365 * day)
	resp, _ := post(t, srv.URL+"/v1/transfers", "k1", "amount=1")
	assert.Equal(t, "true", resp.Header.Get("X-Replayed"), "what has no stated retention is never forgotten")

	resp, body := post(t, srv.URL+"/v1/transfers", "k1", "amount=2")
	assert.Equal(t, http.StatusExpectationFailed, resp.StatusCode)
	assert.Equal(t, "body", resp.Header.Get("X-Mismatch"))
	assert.JSONEq(t, `{"error":"unspecified"}`, body)

	resp, _ = post(t, srv.URL+"/v1/transfers", strings.Repeat("k", 37), "amount=1")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Equal(t, 1, srv.EffectsFor("k1"))
}

// An in flight answer follows a rule by header and array field.
func TestInFlightFollowsItsRule(t *testing.T) {
	p := providers.Raw(day)
	p.Endpoints[0].Rules = []providers.Rule{
		{Header: "X-Busy", Field: "errors[].reason", Equals: "in_progress", Verdict: providers.InFlight},
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	srv := start(t, p, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-leave
	}))
	go func() { _, _, _ = send(context.Background(), http.MethodPost, srv.URL, "k1", "") }()
	<-entered
	resp, body := post(t, srv.URL, "k1", "")
	close(leave)
	assert.Equal(t, http.StatusConflict, resp.StatusCode)
	assert.Equal(t, "true", resp.Header.Get("X-Busy"))
	assert.JSONEq(t, `{"errors":[{"reason":"in_progress"}]}`, body)
}
