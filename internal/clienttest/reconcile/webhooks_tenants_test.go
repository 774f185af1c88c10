package reconcile_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// perTenant makes each scope a separate account, with separate object ids.
func perTenant(p *providers.Provider) {
	p.KeysPerScope = true
	p.Events = append(p.Events, providers.EventRule{
		Field: "type", Equals: "payment.refunded", Endpoint: "POST /payments", ID: "id", Object: "data.id", At: "created", Is: providers.Reversed, Source: "made up",
	})
}

// byHeader makes the bank's requests and events name an account.
func byHeader(p *providers.Provider) {
	p.AccountHeaders = []string{"Bank-Account"}
	for i := range p.Events {
		p.Events[i].Account = "account"
	}
}

// sameObject answers each payment by the same id, and says that an account has the name of its header or its credential.
func sameObject(r *http.Request) *http.Response {
	if r.Method == http.MethodPost {
		return answers(http.StatusOK, `{"id":"obj_7"}`)
	}
	return answers(http.StatusOK, fmt.Sprintf(`{"account":{"id":%q}}`, cmp.Or(r.Header.Get("Bank-Account"), r.Header.Get("Authorization"))))
}

// refunded is an event about an object alone.
func refunded(id, object string) onceward.Event {
	return onceward.Event{Evidence: true, Body: fmt.Appendf(nil, `{"id":%q,"type":"payment.refunded","created":%d,"data":{"id":%q}}`, id, time.Now().Unix(), object)}
}

// in adds the account that an event names.
func in(account string, e onceward.Event) onceward.Event {
	e.Body = append([]byte(`{"account":"`+account+`",`), e.Body[1:]...)
	return e
}

// paysAs makes a payment for a tenant whose account gives the object the id that its other accounts give theirs, too.
func paysAs(t *testing.T, l *teller, ctx context.Context, tenant string, options ...option) onceward.Ref {
	t.Helper()
	out := l.Ask(onceward.WithOperation(ctx, "invoice-of-"+tenant), append([]option{to(http.MethodPost, l.Box.URL+"/payments"), body(`{"amount":10}`), with("Content-Type", "application/json")}, options...)...)
	require.NoError(t, out.Err)
	return out.Op.Ref
}

// findings lists what events were recorded on an operation.
func findings(t *testing.T, l *teller, ref onceward.Ref) (found []journal.Finding) {
	t.Helper()
	op, err := l.Operation(t.Context(), ref)
	require.NoError(t, err)
	for _, e := range op.Evidence {
		found = append(found, e.Finding)
	}
	return found
}

// Two tenants' accounts gave the same id to an object, and one was refunded. The event goes to the tenant whose endpoint
// received it.
func TestWebhookOfATenantsEndpoint(t *testing.T) {
	for name, keys := range map[string]map[string]option{
		"random keys":   {"a": bearer("a"), "b": bearer("b")},
		"callers' keys": {"a": with("Idempotency-Key", "order-1"), "b": with("Idempotency-Key", "order-1")},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := atBank(t, onceward.Config{Journal: j}, unlooked, perTenant)
			l.Fakes(sameObject)
			refs := map[string]onceward.Ref{}
			for tenant, key := range keys {
				refs[tenant] = paysAs(t, l, onceward.WithScope(t.Context(), tenant), tenant, key)
			}
			ops, err := l.RecordEvent(t.Context(), "bank", refunded("evt_1", "obj_7"))
			require.NoError(t, err)
			assert.Empty(t, ops, "an endpoint that is of no tenant")
			assert.Empty(t, findings(t, l, refs["a"]))
			assert.Empty(t, findings(t, l, refs["b"]))

			for _, tenant := range []string{"a", "b"} { // each has an event of that id
				ops, err = l.RecordEvent(onceward.WithScope(t.Context(), tenant), "bank", refunded("evt_1", "obj_7"))
				require.NoError(t, err)
				require.Len(t, ops, 1)
				assert.Equal(t, refs[tenant], ops[0].Ref)
				assert.Equal(t, []journal.Finding{journal.FindingReversed}, findings(t, l, refs[tenant]))
				assert.Equal(t, tenant == "b", len(findings(t, l, refs["b"])) == 1)
			}
			ops, err = l.RecordEvent(onceward.WithScope(t.Context(), "c"), "bank", refunded("evt_2", "obj_7"))
			require.NoError(t, err)
			assert.Empty(t, ops)
		})
	}
}

// The tenant's own operation is found by its object, although another tenant's has the key that the event shows.
func TestWebhookWithTheKeyOfAnotherTenant(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, perTenant)
		l.Fakes(sameObject)
		paysAs(t, l, onceward.WithScope(t.Context(), "a"), "a", with("Idempotency-Key", "order-1"))
		own := paysAs(t, l, onceward.WithScope(t.Context(), "b"), "b", with("Idempotency-Key", "order-2"))
		ops, err := l.RecordEvent(onceward.WithScope(t.Context(), "b"), "bank", l.Happened("evt_1", "payment.failed", "order-1", "obj_7", time.Now()))
		require.NoError(t, err)
		assert.Empty(t, ops, "its own has another key")
		ops, err = l.RecordEvent(onceward.WithScope(t.Context(), "b"), "bank", refunded("evt_2", "obj_7"))
		require.NoError(t, err)
		require.Len(t, ops, 1)
		assert.Equal(t, own, ops[0].Ref)
	})
}

// An event that shows a mark that no other operation has is of its operation, whichever endpoint heard it.
func TestWebhookWithAMarkAtAnyEndpoint(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, perTenant)
		l.Box.Script(providertest.DropAfter())
		out := l.Ask(onceward.WithOperation(onceward.WithScope(t.Context(), "a"), "invoice-1"), to(http.MethodPost, l.Box.URL+"/payments"), body(`{"amount":10}`), with("Content-Type", "application/json"), with("Authorization", "Bearer a"))
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now())
		ops, err := l.RecordEvent(onceward.WithScope(t.Context(), "b"), "bank", e)
		require.NoError(t, err)
		assert.Empty(t, ops, "the endpoint is another tenant's")
		ops, err = l.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		require.Len(t, ops, 1)
		assert.Equal(t, onceward.StateCompleted, ops[0].State)
	})
}

// Requests name their account by a header. An event of the account's own endpoint names none.
func TestWebhookOfAnAccountsEndpoint(t *testing.T) {
	for _, row := range []struct {
		name     string
		endpoint string // the endpoint's account, if it is stated
		event    string // the account that the event names
		shown    string // the operation of which account
	}{
		{"the event names its account", "", "acct_1", "acct_1"},
		{"the endpoint is the account's", "acct_1", "", "acct_1"},
		{"the endpoint is the other's", "acct_2", "", "acct_2"},
		{"the event says more than the endpoint", "platform", "acct_1", "acct_1"},
		{"neither is stated", "", "", ""},
		{"the endpoint is of a third account", "acct_3", "", ""},
		{"the event is of a third account", "", "acct_3", ""},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := atBank(t, onceward.Config{Journal: j}, unlooked, perTenant, func(p *providers.Provider) { p.KeysPerScope = false }, byHeader)
			l.Fakes(sameObject)
			refs := map[string]onceward.Ref{}
			for _, account := range []string{"acct_1", "acct_2"} {
				refs[account] = paysAs(t, l, t.Context(), account, with("Bank-Account", account))
			}
			e := refunded("evt_1", "obj_7")
			if row.event != "" {
				e = in(row.event, e)
			}
			ctx := t.Context()
			if row.endpoint != "" {
				ctx = onceward.WithAccount(ctx, row.endpoint)
			}
			ops, err := l.RecordEvent(ctx, "bank", e)
			require.NoError(t, err)
			if row.shown == "" {
				assert.Empty(t, ops)
			} else if assert.Len(t, ops, 1) {
				assert.Equal(t, refs[row.shown], ops[0].Ref)
			}
			for account, ref := range refs {
				assert.Equal(t, account == row.shown, len(findings(t, l, ref)) == 1, account)
			}
		})
	}
}

// An event with the operation's own key settles it, although it names no account and the request did.
func TestWebhookWithAKeyAndNoAccount(t *testing.T) {
	for _, carried := range []bool{false, true} {
		each(t, fmt.Sprint("carried: ", carried), func(t *testing.T, j machine.Store) {
			l := atBank(t, onceward.Config{Journal: j}, unlooked, byHeader)
			l.Box.Script(providertest.DropAfter())
			options := []option{with("Bank-Account", "acct_1")}
			if carried {
				options = append(options, with("Idempotency-Key", "order-1"))
			}
			out := l.Pays("invoice-1", options...)
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now())
			ops, err := l.RecordEvent(t.Context(), "bank", e)
			require.NoError(t, err)
			assert.Equal(t, carried, len(ops) == 0, "a caller's key may be in several accounts")
			assert.Equal(t, carried, l.Stands("invoice-1").State == onceward.StateUnknown)
			_, err = l.RecordEvent(onceward.WithAccount(t.Context(), "acct_1"), "bank", e)
			require.NoError(t, err)
			assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
			l.Truly()
		})
	}
}

// Only the credential shows the account, and the program labels it alike at the request and at the endpoint.
func TestWebhookOfALabelledAccount(t *testing.T) {
	for name, cfg := range map[string]onceward.Config{"without a secret": {}, "with a secret": {Secret: []byte("a secret of sixteen bytes or more")}} {
		each(t, name, func(t *testing.T, j machine.Store) {
			cfg.Journal = j
			l := atBank(t, cfg, unlooked, perTenant, func(p *providers.Provider) { p.KeysPerScope = false })
			l.Fakes(sameObject)
			refs := map[string]onceward.Ref{}
			for _, seller := range []string{"seller-1", "seller-2"} {
				refs[seller] = paysAs(t, l, onceward.WithAccount(t.Context(), seller), seller, with("Authorization", "Bearer "+seller))
			}
			ops, err := l.RecordEvent(onceward.WithAccount(t.Context(), "seller-2"), "bank", refunded("evt_1", "obj_7"))
			require.NoError(t, err)
			require.Len(t, ops, 1)
			assert.Equal(t, refs["seller-2"], ops[0].Ref)
			assert.Len(t, findings(t, l, refs["seller-2"]), 1)
			assert.Empty(t, findings(t, l, refs["seller-1"]))
		})
	}
}

// Accounts that only a label tells apart gave the same id to an object. An endpoint that is of neither settles and shows neither.
func TestWebhookOfOneOfSeveralAccounts(t *testing.T) {
	for name, row := range map[string]struct {
		labels   [2]string
		evidence bool
		alike    bool // the event may be about both
	}{
		"two labels":                 {labels: [2]string{"seller-1", "seller-2"}, evidence: true},
		"a label and none":           {labels: [2]string{"seller-1", ""}, evidence: true},
		"an unsigned event":          {labels: [2]string{"seller-1", "seller-2"}},
		"two requests of an account": {labels: [2]string{"seller-1", "seller-1"}, evidence: true, alike: true},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := atBank(t, onceward.Config{Journal: j}, unlooked, perTenant, func(p *providers.Provider) { p.KeysPerScope = false })
			l.Fakes(sameObject)
			var refs []onceward.Ref
			for i, label := range row.labels {
				refs = append(refs, paysAs(t, l, onceward.WithAccount(t.Context(), label), fmt.Sprint(i), with("Authorization", "Bearer "+label)))
			}
			e := refunded("evt_1", "obj_7")
			e.Evidence = row.evidence
			ops, err := l.RecordEvent(t.Context(), "bank", e)
			require.NoError(t, err)
			assert.Equal(t, row.alike, len(ops) == 2)
			assert.Equal(t, row.alike, len(ops) > 0, "shown")
			for _, ref := range refs {
				assert.Equal(t, row.alike, len(findings(t, l, ref)) == 1)
			}
		})
	}
}

// Two tenants pay by one credential, and both operations show the object. An endpoint that is of neither tenant settles and
// shows neither. The endpoint of one tenant settles and shows the tenant's own.
func TestWebhookOfOneOfSeveralScopes(t *testing.T) {
	for _, evidence := range []bool{true, false} {
		each(t, fmt.Sprint("evidence: ", evidence), func(t *testing.T, j machine.Store) {
			l := atBank(t, onceward.Config{Journal: j}, unlooked, perTenant, func(p *providers.Provider) { p.KeysPerScope = false })
			l.Fakes(sameObject)
			refs := map[string]onceward.Ref{}
			for _, tenant := range []string{"a", "b"} {
				refs[tenant] = paysAs(t, l, onceward.WithScope(t.Context(), tenant), tenant)
			}
			e := refunded("evt_1", "obj_7")
			e.Evidence = evidence
			ops, err := l.RecordEvent(t.Context(), "bank", e)
			require.NoError(t, err)
			assert.Empty(t, ops)
			assert.Empty(t, findings(t, l, refs["a"]))
			assert.Empty(t, findings(t, l, refs["b"]))

			ops, err = l.RecordEvent(onceward.WithScope(t.Context(), "b"), "bank", e)
			require.NoError(t, err)
			require.Len(t, ops, 1)
			assert.Equal(t, refs["b"], ops[0].Ref)
			assert.Empty(t, findings(t, l, refs["a"]))
			assert.Equal(t, evidence, len(findings(t, l, refs["b"])) == 1)
		})
	}
}

// The handler for a tenant's endpoint gets that tenant's operations alone.
func TestWebhooksHandlerOfATenant(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, perTenant)
		l.Fakes(sameObject)
		for _, tenant := range []string{"a", "b"} {
			paysAs(t, l, onceward.WithScope(t.Context(), tenant), tenant)
		}
		v, err := webhook.StandardWebhooks(signingSecret)
		require.NoError(t, err)
		var about []onceward.Operation
		hooks := l.WebhookHandler("bank", v, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { about = onceward.OperationsOf(r.Context()) }))
		for _, tenant := range []string{"a", "b", "c"} {
			r := signed(t, refunded("evt_1", "obj_7").Body)
			hooks.ServeHTTP(httptest.NewRecorder(), r.WithContext(onceward.WithScope(r.Context(), tenant)))
			if tenant == "c" {
				assert.Empty(t, about)
				return
			}
			require.Len(t, about, 1)
			assert.Equal(t, tenant, about[0].Scope)
		}
	})
}
