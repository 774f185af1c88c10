package server_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/server"
)

// caller is a shop whose handlers call a provider.
type caller struct {
	*shop
	provider *providertest.Server
	client   *onceward.Client
}

func openCaller(t *testing.T, adjust func(*server.Options)) *caller {
	t.Helper()
	provider := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "declined") {
			w.WriteHeader(http.StatusPaymentRequired)
			fmt.Fprint(w, `{"error":{"type":"card_error"}}`)
			return
		}
		fmt.Fprint(w, `{"id":"ch_1"}`)
	}))
	t.Cleanup(provider.Close)
	s := open(t, adjust)
	client, err := onceward.New(onceward.Config{
		Journal: s.journal, Providers: []providers.Provider{provider.Provider()}, HTTPClient: provider.Client(), Secret: []byte("0123456789abcdef"),
		Logger: slog.New(slog.DiscardHandler), Backoff: backoff.Policy{Initial: time.Millisecond, MaxAttempts: 1},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Shutdown(context.Background()) })
	c := &caller{s, provider, client}
	c.server = c.host(adjust)
	return c
}

// host is another process with the client.
func (c *caller) host(adjust func(*server.Options)) *server.Server {
	return c.another(func(o *server.Options) {
		o.Client = c.client
		if adjust != nil {
			adjust(o)
		}
	})
}

func (c *caller) post(ctx context.Context, path string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.provider.URL+"/v1"+path, strings.NewReader("amount=1"))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	got, err := c.client.HTTPClient().Do(req)
	if err != nil {
		return 0, err
	}
	defer got.Body.Close()
	_, err = io.Copy(io.Discard, got.Body)
	return got.StatusCode, err
}

// charges is a handler that charges by a call.
func (c *caller) charges(w http.ResponseWriter, r *http.Request) {
	if _, err := c.post(r.Context(), "/charges"); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// A handler that gets no transaction, and returns, has not succeeded. Nothing is recorded.
func TestTransactionInVain(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	for name, row := range map[string]struct {
		serve  func(string, http.Handler, server.Endpoint) http.Handler
		method string
		how    []asked
	}{
		"type":       {c.server.Atomic, http.MethodPost, []asked{keyed("key-0001")}},
		"keyless":    {c.server.Atomic, http.MethodPut, nil},
		"repeatable": {c.server.Repeatable, http.MethodPost, []asked{keyed("key-0002")}},
	} {
		handler := func(answer string) http.Handler {
			return row.serve(name+answer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := server.TxAs[*sql.Conn](r.Context())
				assert.Error(t, err)
				if answer != "" {
					fmt.Fprint(w, answer)
				}
			}), server.Endpoint{})
		}
		assert.Equal(t, http.StatusInternalServerError, ask(handler(""), row.method, "/charges", "1", row.how...).Code, name)
		assert.Equal(t, http.StatusOK, ask(handler("done"), row.method, "/charges", "1", row.how...).Code, name)
	}
}

// The handler runs until an answer is recorded, and its calls take effect once.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	runs := 0
	h := c.server.Repeatable("charges.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := server.Tx(r.Context())
		assert.ErrorIs(t, err, server.ErrNoTransaction)
		_, err = c.post(r.Context(), "/charges")
		assert.NoError(t, err)
		switch runs++; runs {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		case 3:
			server.Release(r.Context())
		}
		fmt.Fprint(w, "run ", runs)
	}), server.Endpoint{})
	assert.Panics(t, func() { ask(h, "POST", "/charges", "1", keyed(key)) })
	assert.Equal(t, http.StatusBadGateway, ask(h, "POST", "/charges", "1", keyed(key)).Code)
	assert.Equal(t, "run 3", ask(h, "POST", "/charges", "1", keyed(key)).Body.String())
	for range 2 {
		assert.Equal(t, "run 4", ask(h, "POST", "/charges", "1", keyed(key)).Body.String())
	}
	assert.Len(t, c.provider.Effects(), 1)
	assert.Equal(t, []server.Kind{server.Released, server.Released, server.Released, server.Created, server.Replayed}, c.outcomes)
	assert.Equal(t, http.StatusUnprocessableEntity, ask(h, "POST", "/charges", "2", keyed(key)).Code)
}

// If two processes run a handler at once, both callers get the answer that was recorded first.
func TestRepeatableInTwoProcesses(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	var both, all sync.WaitGroup
	both.Add(2)
	bodies := make([]string, 2)
	for i := range bodies {
		h := c.host(nil).Repeatable("charges.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			both.Done()
			both.Wait()
			for {
				if _, err := c.post(onceward.WithOperation(r.Context(), "charge"), "/charges"); !errors.Is(err, onceward.ErrInFlight) {
					assert.NoError(t, err)
					break
				}
			}
			fmt.Fprint(w, "process ", i)
		}), server.Endpoint{})
		all.Go(func() { bodies[i] = ask(h, "POST", "/charges", "1", keyed(key)).Body.String() })
	}
	all.Wait()
	assert.Equal(t, bodies[0], bodies[1])
	assert.Len(t, c.provider.Effects(), 1)
}

// A key at two endpoints is one key, or two with KeysPerEndpoint. A renamed endpoint makes its calls under its former
// name.
func TestKeysAndEndpoints(t *testing.T) {
	t.Parallel()
	for perEndpoint, effects := range map[bool]int{false: 1, true: 2} {
		t.Run(fmt.Sprintf("KeysPerEndpoint=%v", perEndpoint), func(t *testing.T) {
			t.Parallel()
			c := openCaller(t, func(o *server.Options) { o.KeysPerEndpoint = perEndpoint })
			first := c.server.Repeatable("charges.create", http.HandlerFunc(c.charges), server.Endpoint{})
			second := c.server.Repeatable("tips.create", http.HandlerFunc(c.charges), server.Endpoint{})
			assert.Equal(t, http.StatusCreated, ask(first, "POST", "/charges", "1", keyed(key)).Code)
			got := ask(second, "POST", "/charges", "1", keyed(key)).Code
			assert.Equal(t, map[bool]int{false: http.StatusUnprocessableEntity, true: http.StatusCreated}[perEndpoint], got)
			assert.Len(t, c.provider.Effects(), effects)

			crashes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.charges(w, r)
				panic(http.ErrAbortHandler)
			})
			before := c.server.Repeatable("refunds.create", crashes, server.Endpoint{})
			assert.Panics(t, func() { ask(before, "POST", "/refunds", "1", keyed("key-0002")) })
			after := c.host(func(o *server.Options) { o.KeysPerEndpoint = perEndpoint }).
				Repeatable("refunds.make", http.HandlerFunc(c.charges), server.Endpoint{Formerly: []string{"refunds.create"}})
			assert.Equal(t, http.StatusCreated, ask(after, "POST", "/refunds", "1", keyed("key-0002")).Code)
			assert.Len(t, c.provider.Effects(), effects+1, "the call was made under the former name")
		})
	}
}

// A release makes an endpoint of Repeatable one of Atomic, or the other way round. A request that crosses the deploy charges once,
// since both name their calls under the key.
func TestModeThatChangesBetweenReleases(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	repeatable := c.server.Repeatable("charges.create", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := c.post(onceward.WithOperation(r.Context(), "charge"), "/charges")
		assert.NoError(t, err)
		panic(http.ErrAbortHandler) // before its answer is recorded
	}), server.Endpoint{})
	atomic := c.host(nil).Atomic("charges.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, err := server.JournalTx(r.Context())
		if !assert.NoError(t, err) {
			return
		}
		charge, err := http.NewRequestWithContext(onceward.WithOperation(r.Context(), "charge"), http.MethodPost, c.provider.URL+"/v1/charges", strings.NewReader("amount=1"))
		assert.NoError(t, err)
		charge.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		_, err = c.client.Enqueue(charge.Context(), tx, charge)
		assert.NoError(t, err)
		w.WriteHeader(http.StatusCreated)
	}), server.Endpoint{})
	assert.Panics(t, func() { ask(repeatable, "POST", "/charges", "1", keyed(key)) })
	for n, key := range []string{key, "key-0002"} {
		require.Equal(t, http.StatusCreated, ask(atomic, "POST", "/charges", "1", keyed(key)).Code)
		assert.Equal(t, "true", ask(repeatable, "POST", "/charges", "1", keyed(key)).Header().Get("Idempotent-Replayed"))
		_, err := c.client.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, c.provider.Effects(), n+1)
	}
}

// In a request without a key, the name of a call belongs to the tenant. No other tenant gets the answer of that call.
func TestNamesBelowRequestsWithoutAKey(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	h := c.server.Repeatable("charges.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := c.post(onceward.WithOperation(r.Context(), "charge "+r.Method), "/charges")
		assert.NoError(t, err)
	}), server.Endpoint{Optional: true})
	for i, method := range []string{"POST", "PUT", "GET"} {
		for range 2 {
			for _, tenant := range []string{"acme", "globex"} {
				assert.Equal(t, http.StatusOK, ask(h, method, "/charges", "1", with("X-Tenant", tenant)).Code)
			}
		}
		assert.Len(t, c.provider.Effects(), 2*(i+1), method)
		assert.Equal(t, http.StatusInternalServerError, ask(h, "POST", "/charges", "1", with("X-Tenant", "?")).Code)
	}
}

// A handler of Atomic makes no call while its transaction is open. Before that, the call is a step of the key.
func TestCallsBelowAtomic(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	fails := true
	h := c.server.Atomic("charges.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := c.post(r.Context(), "/charges")
		assert.NoError(t, err)
		pay(w, r)
		_, err = c.post(r.Context(), "/late")
		assert.ErrorIs(t, err, onceward.ErrOpenTransaction)
		if _, err = c.once(r.Context(), "other"); assert.ErrorIs(t, err, server.ErrInTransaction) && fails {
			panic(http.ErrAbortHandler)
		}
	}), server.Endpoint{})
	assert.Panics(t, func() { ask(h, "POST", "/charges", "1", keyed(key)) })
	fails = false
	assert.Equal(t, http.StatusCreated, ask(h, "POST", "/charges", "1", keyed(key)).Code)
	assert.Len(t, c.provider.Effects(), 1)
	assert.Equal(t, 1, c.rows())
}

func (c *caller) once(ctx context.Context, key string) (int, error) {
	return server.Once(ctx, c.server, server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "job", Key: key}, nil, func(ctx context.Context) (int, error) {
		return c.post(ctx, "/charges")
	})
}

// A call below Once is a step of its key, and repeated if Once fails after it.
func TestCallsBelowOnce(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	failure := errors.New("not today")
	for i, key := range []string{"plain", `"quoted",and;more\\`} {
		for _, fails := range []error{failure, nil} {
			_, err := server.Once(t.Context(), c.server, server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "job", Key: key}, nil, func(ctx context.Context) (int, error) {
				status, err := c.post(ctx, "/charges")
				return status, errors.Join(err, fails)
			})
			require.ErrorIs(t, err, fails)
			assert.Len(t, c.provider.Effects(), i+1)
		}
		_, err := c.journal.Get(t.Context(), journal.Ref{Scope: "acme", Parent: "inbound " + key, ID: "POST " + strings.TrimPrefix(c.provider.URL, "http://") + "/v1/charges"})
		require.NoError(t, err)
	}
}

// A request that runs a flow is answered with the result of the flow. While the flow is under way, the answer is 503
// with a Retry-After.
func TestFlow(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	pay := flow.Define("pay", 1, func(ctx context.Context, path string) (string, error) {
		return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			status, err := c.post(ctx, path)
			if status == http.StatusPaymentRequired {
				return "", flow.GiveUp(errors.New("declined"))
			}
			return fmt.Sprint("charged ", status), err
		})
	})
	flows, err := flow.New(c.client, flow.Config{Definitions: []flow.Definition{pay}})
	require.NoError(t, err)
	decode := func(r *http.Request) (string, error) {
		body, err := io.ReadAll(r.Body)
		if string(body) == "none" {
			err = errors.New("that is no path")
		}
		return string(body), err
	}
	answer := func(w http.ResponseWriter, result string, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusPaymentRequired)
			return
		}
		fmt.Fprint(w, result)
	}
	h := c.server.Repeatable("pay", server.FlowHandler(pay, flows, decode, answer), server.Endpoint{Optional: true})

	for range 2 {
		got := ask(h, "POST", "/", "/charges", keyed("key-good"))
		assert.Equal(t, "charged 200", got.Body.String())
	}
	for _, replayed := range []string{"", "true"} {
		got := ask(h, "POST", "/", "/declined", keyed("key-declined"))
		assert.Equal(t, http.StatusPaymentRequired, got.Code)
		assert.Contains(t, got.Body.String(), "declined")
		assert.NotEmpty(t, got.Header().Get("Idempotency-Expires"), "the flow has ended")
		assert.Equal(t, replayed, got.Header().Get("Idempotent-Replayed"))
	}
	lost := &line{handler: h, lose: 1}
	payer := lost.payer(t, 3)
	status, err := payer.pay("/declined")
	require.NoError(t, err)
	assert.Equal(t, http.StatusPaymentRequired, status, "its first answer was lost")
	assert.Equal(t, onceward.StateCompleted, payer.state())
	assert.Equal(t, http.StatusBadRequest, ask(h, "POST", "/", "none", keyed("key-none")).Code)
	assert.Equal(t, http.StatusBadRequest, ask(h, "POST", "/", "/charges").Code, "a flow is named by its key")

	c.provider.Script(providertest.DropAfter())
	got := ask(h, "POST", "/", "/charges", keyed("key-down"))
	assert.Equal(t, http.StatusServiceUnavailable, got.Code)
	assert.Contains(t, got.Body.String(), "under way")
	assert.NotEmpty(t, got.Header().Get("Retry-After"))
	again := ask(h, "POST", "/", "/charges", keyed("key-down"))
	assert.Equal(t, http.StatusServiceUnavailable, again.Code, "it waits for its operation to be due")
	assert.Len(t, c.provider.Effects(), 2)
}

// A step runs another flow by a context of its own. If that flow is given up, the outer flow has not ended.
func TestFlowWithinAFlow(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	inner := flow.Define("inner", 1, func(context.Context, string) (string, error) {
		return "", flow.GiveUp(errors.New("no courier"))
	})
	var flows *flow.Runner
	outer := flow.Define("outer", 1, func(ctx context.Context, in string) (string, error) {
		if _, err := flow.Step(ctx, "charge", func(ctx context.Context) (int, error) { return c.post(ctx, "/charges") }); err != nil {
			return "", err
		}
		return flow.Step(ctx, "send", func(context.Context) (string, error) {
			return inner.Run(context.WithoutCancel(t.Context()), flows, "courier", in)
		})
	})
	flows, err := flow.New(c.client, flow.Config{Definitions: []flow.Definition{inner, outer}, Backoff: backoff.Policy{MaxAttempts: 1}})
	require.NoError(t, err)
	h := c.server.Repeatable("orders.create", server.FlowHandler(outer, flows, func(*http.Request) (string, error) { return "", nil },
		func(_ http.ResponseWriter, _ string, err error) { t.Error("it was answered", err) }), server.Endpoint{})
	got := ask(h, "POST", "/", "1", keyed(key))
	assert.GreaterOrEqual(t, got.Code, 500)
	assert.Len(t, c.provider.Effects(), 1, "the charge stands")
}

// A flow that waits for an operation of unknown outcome, or that has failed too often, says so, and its key is not recorded.
func TestFlowThatCantGoOn(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(silent.Close)
	c := openCaller(t, nil)
	unlisted := flow.Define("unlisted", 1, func(ctx context.Context, _ string) (string, error) {
		return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, silent.URL, strings.NewReader("amount=1"))
			if err != nil {
				return "", err
			}
			got, err := c.client.HTTPClient().Do(r)
			if err != nil {
				return "", err
			}
			return got.Status, got.Body.Close()
		})
	})
	failing := flow.Define("failing", 1, func(ctx context.Context, _ string) (string, error) {
		return flow.Step(ctx, "book", func(context.Context) (string, error) { return "", errors.New("no ledger") })
	})
	flows, err := flow.New(c.client, flow.Config{Definitions: []flow.Definition{unlisted, failing}, Backoff: backoff.Policy{MaxAttempts: 1}})
	require.NoError(t, err)
	decode := func(*http.Request) (string, error) { return "", nil }
	answer := func(w http.ResponseWriter, _ string, err error) { t.Error("it was answered", err) }
	for _, row := range []struct {
		flow              *flow.Func[string, string]
		status            int
		problem, retrying string
		again             int // how it is answered before the flow is due again
		observed          server.Kind
	}{
		{unlisted, http.StatusConflict, "It is not known whether the first request with this key took effect", "60", http.StatusServiceUnavailable, server.Refused},
		{failing, http.StatusInternalServerError, "It has failed too often", "", http.StatusInternalServerError, server.Failed},
	} {
		h := c.server.Repeatable(fmt.Sprint("pay.", row.status), server.FlowHandler(row.flow, flows, decode, answer), server.Endpoint{})
		k := keyed(fmt.Sprint("key-000", row.status))
		got := ask(h, "POST", "/", "1", k)
		assert.Equal(t, row.status, got.Code)
		assert.Contains(t, got.Body.String(), row.problem)
		assert.Equal(t, row.retrying, got.Header().Get("Retry-After"))
		assert.Equal(t, "no-store", got.Header().Get("Cache-Control"))
		assert.Empty(t, got.Header().Get("Idempotency-Recorded"), "that is a mark of an outcome")
		assert.Equal(t, row.observed, c.outcomes[len(c.outcomes)-1])
		assert.Equal(t, row.again, ask(h, "POST", "/", "1", k).Code)
	}
	for name, of := range map[string]*flow.Func[string, string]{"unlisted": unlisted, "failing": failing} {
		h := c.host(func(o *server.Options) {
			o.Caller = func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: name}, nil }
		}).Repeatable("pay", server.FlowHandler(of, flows, decode, answer), server.Endpoint{})
		payer := (&line{handler: h}).payer(t, 1)
		within, cancel := context.WithTimeout(t.Context(), 30*time.Second) // less than Retry-After
		_, err := payer.payWithin(within, "1")
		cancel()
		require.ErrorIs(t, err, onceward.ErrPending, "a client before the service has no outcome yet")
		assert.Equal(t, onceward.StatePending, payer.state())
	}
	for range c.journal.ListReceipts(t.Context(), journal.ReceiptFilter{}) {
		t.Error("a receipt was recorded")
	}
}

// A release may read another input from a request whose flow the release before has begun, or refuse it. The charge may be made, so
// no answer asks the caller for a new key, or says that the request is malformed.
func TestFlowWhoseInputChangesBetweenReleases(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	pay := flow.Define("pay", 1, func(ctx context.Context, _ string) (string, error) {
		return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			status, err := c.post(ctx, "/charges")
			return fmt.Sprint("charged ", status), err
		})
	})
	flows, err := flow.New(c.client, flow.Config{Definitions: []flow.Definition{pay}})
	require.NoError(t, err)
	answer := func(w http.ResponseWriter, result string, err error) {
		assert.NoError(t, err)
		fmt.Fprint(w, result)
	}
	release := func(decode func(*http.Request) (string, error)) http.Handler {
		return c.host(nil).Repeatable("pay", server.FlowHandler(pay, flows, decode, answer), server.Endpoint{})
	}
	amount := func(*http.Request) (string, error) { return "1", nil }
	c.provider.Script(providertest.DropAfter())
	require.Equal(t, http.StatusServiceUnavailable, ask(release(amount), "POST", "/", "1", keyed(key)).Code)
	require.Len(t, c.provider.Effects(), 1)
	stricter := func(*http.Request) (string, error) { return "", errors.New("give a currency") }
	for name, decode := range map[string]func(*http.Request) (string, error){
		"another input": func(*http.Request) (string, error) { return "1 EUR", nil }, "an error": stricter,
	} {
		got := ask(release(decode), "POST", "/", "1", keyed(key))
		assert.Equal(t, http.StatusConflict, got.Code, name)
		assert.Contains(t, got.Body.String(), "Do not use a new key", name)
		assert.Empty(t, got.Header().Get("Idempotency-Recorded"), name)
	}
	assert.Equal(t, http.StatusBadRequest, ask(release(stricter), "POST", "/", "1", keyed("key-0002")).Code, "its flow has not begun")
	assert.Equal(t, http.StatusServiceUnavailable, ask(release(amount), "POST", "/", "1", keyed(key)).Code, "the first release goes on")
}

// The answer of a flow that waits has the time until it goes on. At an endpoint of Atomic a flow does not run.
func TestFlowThatWaits(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	waiting := flow.Define("waiting", 1, func(ctx context.Context, _ string) (string, error) {
		return flow.Step(ctx, "book", func(context.Context) (string, error) { return "", errors.New("no ledger") })
	})
	flows, err := flow.New(c.client, flow.Config{Definitions: []flow.Definition{waiting}, Backoff: backoff.Policy{Initial: time.Hour, Max: time.Hour, MaxAttempts: 2}})
	require.NoError(t, err)
	decode := func(r *http.Request) (string, error) {
		body, err := io.ReadAll(r.Body)
		return string(body), err
	}
	serves := server.FlowHandler(waiting, flows, decode, func(_ http.ResponseWriter, _ string, err error) { t.Error("it was answered", err) })
	h := c.server.Repeatable("pay", serves, server.Endpoint{})
	got := ask(h, "POST", "/", "1", keyed(key))
	assert.Equal(t, http.StatusServiceUnavailable, got.Code)
	seconds, err := strconv.Atoi(got.Header().Get("Retry-After"))
	require.NoError(t, err)
	assert.Greater(t, seconds, 5, "the time is the flow's")
	assert.LessOrEqual(t, seconds, 3601)
	assert.Equal(t, http.StatusBadRequest, ask(c.server.Atomic("atomic", serves, server.Endpoint{}), "POST", "/", "1", keyed("key-0002")).Code)
}

// A client without a secret, Repeatable without a client, and a journal without receipts are refused.
func TestClientsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	assert.PanicsWithValue(t, "server: endpoint pay: Repeatable needs Options.Client, by which the calls of its handler take effect once", func() {
		s.server.Repeatable("pay", http.NotFoundHandler(), server.Endpoint{})
	})
	client, err := onceward.New(onceward.Config{Journal: s.journal, Providers: []providers.Provider{providers.Stripe()}})
	require.NoError(t, err)
	o := server.Options{
		Journal: s.journal, Client: client, Secrets: [][]byte{make([]byte, 16)},
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
	}
	_, err = server.New(t.Context(), o)
	require.ErrorContains(t, err, "Config.Secret")
	o.Journal = memory.New()
	_, err = server.New(t.Context(), o)
	require.ErrorContains(t, err, "keeps no receipts")
}
