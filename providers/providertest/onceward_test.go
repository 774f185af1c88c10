package providertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// lossy are faults of the network alone: the provider itself works.
var lossy = providertest.Mix{
	DropBefore: 0.08, DropAfter: 0.08, Cut: 0.08, CutRequest: 0.05, CutResponse: 0.08, MalformedChunk: 0.05, WrongLength: 0.05,
	Inform: 0.05, DelayBefore: 0.05, DelayAfter: 0.05, MaxDelay: 2 * time.Millisecond,
}

// hostile are faults of all kinds.
var hostile = providertest.Mix{
	DropBefore: 0.04, DropAfter: 0.06, Cut: 0.06, CutRequest: 0.04, CutResponse: 0.06, MalformedChunk: 0.04, WrongLength: 0.04,
	Inform: 0.03, DelayBefore: 0.04, DelayAfter: 0.04, MaxDelay: 2 * time.Millisecond,
	PageBefore: 0.05, PageAfter: 0.06, FailAfter: 0.06, Status: 0.08, Statuses: []int{400, 401, 409, 422, 429, 500, 503},
}

// Through Onceward no operation has two effects.
func TestOncewardHasNoTwoEffects(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			t.Run("a lossy network", func(t *testing.T) {
				for name, op := range s.storm(t, lossy) {
					if s.resent {
						assert.Equal(t, journal.StateCompleted.String(), op.State.String(), "%s: %s", name, op.Cause)
					} else {
						assert.Contains(t, []string{journal.StateCompleted.String(), journal.StateUnknown.String()}, op.State.String(), "%s: %s", name, op.Cause)
					}
				}
			})
			t.Run("faults of all kinds", func(t *testing.T) {
				for name, op := range s.storm(t, hostile) {
					assert.NotEqual(t, journal.StateInFlight.String(), op.State.String(), name)
				}
			})
		})
	}
}

var reference = regexp.MustCompile(`ref-\d+-`)

// storm makes operations of the sample through Onceward under faults. It checks that none has two effects, and that
// each completed one has one.
func (s sample) storm(t *testing.T, mix providertest.Mix) map[string]onceward.Operation {
	b := s.start(t, nil)
	b.Seed(soak.Seed(t, uint64(len(s.name))+1), mix)
	client, err := onceward.New(onceward.Config{
		Journal:     memory.New(),
		Providers:   []providers.Provider{b.Provider()},
		HTTPClient:  b.Client(),
		Backoff:     backoff.Policy{Initial: 100 * time.Microsecond, Max: time.Millisecond, MaxAttempts: 40},
		RetryBudget: backoff.Budget{Capacity: math.MaxInt},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Shutdown(context.Background())) })
	by := func(e providertest.Effect) string { return reference.FindString(string(e.Body)) }

	ops := map[string]onceward.Operation{}
	for n := range soak.Times(8, 100) {
		ref := fmt.Sprintf("ref-%d-", n)
		ctx := onceward.WithOperation(t.Context(), ref)
		req, err := http.NewRequestWithContext(ctx, b.method, b.URL+b.path, strings.NewReader(strings.ReplaceAll(b.body, "REF", ref)))
		require.NoError(t, err)
		for _, h := range b.header {
			req.Header.Set(h[0], h[1])
		}
		resp, err := client.HTTPClient().Do(req)
		var cut error
		if err == nil {
			_, cut = io.ReadAll(resp.Body)
			resp.Body.Close()
		} else {
			var failure *onceward.Error
			assert.True(t, errors.As(err, &failure), "%v", err)
		}
		op, err := client.Operation(t.Context(), onceward.Ref{ID: ref})
		require.NoError(t, err)
		assert.Equal(t, cut != nil, op.Answer != nil && op.Answer.Cut, "%s: %v", ref, cut)
		ops[ref] = op
	}
	counts := map[string]int{}
	for _, e := range b.Effects() {
		counts[by(e)]++
	}
	assert.True(t, b.AssertNoDuplicates(t, by))
	for ref, op := range ops {
		switch {
		case op.State == journal.StateCompleted && !refused(op):
			assert.Equal(t, 1, counts[ref], "%s is completed", ref)
		case op.State == journal.StateCancelled:
			assert.Zero(t, counts[ref], "%s is cancelled: %s", ref, op.Cause)
		}
	}
	return ops
}

// refused reports whether the operation's answer is a refusal. A scripted refusal comes without an execution.
func refused(op onceward.Operation) bool {
	return op.Answer != nil && (op.Answer.Refused || strings.Contains(string(op.Answer.Body), "scripted fault") || strings.Contains(string(op.Answer.Body), `"errorClass"`))
}

// Onceward does not resend a request that may have run if its endpoint takes no key, or if no table describes it.
func TestOncewardRequestWithoutAKey(t *testing.T) {
	t.Parallel()
	for _, s := range []sample{
		{name: "a Twilio message", provider: providers.Twilio(), path: "/2010-04-01/Accounts/AC1/Messages.json", header: form, body: "Body=REF"},
		{name: "a PayPal void", provider: providers.PayPal(), path: "/v2/payments/authorizations/1/void"},
		{name: "a Stripe v1 DELETE", provider: providers.Stripe(), method: http.MethodDelete, path: "/v1/customers/1"},
		{name: "a Shopify mutation without the directive", provider: providers.Shopify(), path: "/admin/api/2026-04/graphql.json", body: `{"query":"mutation { orderCancel(orderId: \"REF\") { job { id } } }"}`, made: outcome{200, `{"data":{"orderCancel":{"job":{"id":"1"}}}}`}},
		{name: "an AWS action that is not listed", provider: providers.AWS(providers.AWSRunInstances(region)), path: "/", header: form, body: "Action=StartInstances&InstanceId.1=REF"},
		{name: "a path that no pattern matches", provider: providers.Stripe(), path: "/v3/things"},
	} {
		s = s.filled()
		t.Run(s.name, func(t *testing.T) {
			for _, mix := range []providertest.Mix{lossy, hostile} {
				unknown := 0
				for _, op := range s.storm(t, mix) {
					if op.State == journal.StateUnknown {
						unknown++
					}
				}
				assert.Positive(t, unknown, "some were lost, and that can't be told")
			}
		})
	}
}

// Onceward fetches the resource if the provider says that a request was already done.
func TestOncewardFetchesTheExistingResource(t *testing.T) {
	b := sample{name: "GoCardless", provider: knowing(providers.GoCardless()), path: "/payments", made: outcome{201, `{"payments":{"id":"PM123","status":"pending_customer_approval"}}`}}.filled().start(t, nil)
	b.Script(providertest.DropAfter())
	client, err := onceward.New(onceward.Config{
		Journal:    memory.New(),
		Providers:  []providers.Provider{b.Provider()},
		HTTPClient: b.Client(),
		Backoff:    backoff.Policy{Initial: time.Millisecond},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Shutdown(context.Background())) })
	ctx := onceward.WithOperation(t.Context(), "invoice-1/payment")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/payments", strings.NewReader(`{"payments":{"amount":10}}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.HTTPClient().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.JSONEq(t, `{"payments":{"id":"PM123","status":"pending_customer_approval"}}`, string(body))
	op, err := client.Operation(t.Context(), onceward.Ref{ID: "invoice-1/payment"})
	require.NoError(t, err)
	assert.Equal(t, "PM123", op.Answer.Pointer)
	assert.Equal(t, 3, b.Requests(), "the payment, its repeat and the GET")
	b.AssertOneEffect(t, string(op.Key))
}
