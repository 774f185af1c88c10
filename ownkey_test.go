package onceward_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// A conflict of which nobody says what it means for a key is a refusal where nobody
// else can have sent the key, and has to be reconciled where somebody may have.
func TestAConflictIsARefusalWhereNobodyElseHasTheKey(t *testing.T) {
	conflict := says(409, `{"code":"insufficient_balance"}`)
	for _, row := range []struct {
		name   string
		key    string // carried
		secret []byte
		parent bool
		script []reply
		state  onceward.State
	}{
		{"a random key", "", nil, false, []reply{conflict}, onceward.Completed},
		{"a carried key", "sdk-1", nil, false, []reply{conflict}, onceward.Unknown},
		{"a key derived from a secret", "", []byte("0123456789abcdef"), false, []reply{conflict}, onceward.Unknown},
		{"a child's key", "", nil, true, []reply{conflict}, onceward.Unknown},
		{"a random key, after an attempt that was lost", "", nil, false, []reply{loses(), conflict}, onceward.Unknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(row.script...)
			api := own(func(e *providers.Endpoint) {
				e.Rules = []providers.Rule{
					{Status: 409, Field: "code", On: providers.FirstAttemptOwnKey, Verdict: providers.Final},
					{Status: 409, Verdict: providers.Indeterminate},
				}
			})
			p := start(t, l, onceward.Config{Providers: []providers.Provider{api}, Secret: row.secret})
			ctx, options := named(t, "order-1"), []option{to(http.MethodPost, ownURL)}
			if row.parent {
				ctx = onceward.WithParent(ctx, onceward.NewKey())
			}
			if row.key != "" {
				options = append(options, carrying(row.key))
			}
			assert.Equal(t, row.state, p.ask(ctx, options...).op.State)
			assert.Len(t, l.sent(), len(row.script))
		})
	}
}

// What the provider calls idempotent is repeated while its caller waits, whatever its
// method, if it has neither name nor key.
func TestWhatTheProviderCallsIdempotentIsRepeated(t *testing.T) {
	for _, row := range []struct {
		name   string
		facts  providers.Endpoint
		method string
		named  bool
		sent   int
	}{
		{"a PATCH", providers.Endpoint{Pattern: "/", Idempotent: true}, http.MethodPatch, false, 2},
		{"a PATCH of which the provider says nothing", providers.Endpoint{Pattern: "/"}, http.MethodPatch, false, 1},
		{"a PUT", providers.Endpoint{Pattern: "/"}, http.MethodPut, false, 2},
		{"a PATCH with a name", providers.Endpoint{Pattern: "/", Idempotent: true}, http.MethodPatch, true, 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(loses())
			api := own()
			api.Endpoints = []providers.Endpoint{row.facts}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{api}})
			ctx := t.Context()
			if row.named {
				ctx = named(t, "order-1")
			}
			p.ask(ctx, to(row.method, ownURL))
			assert.Len(t, l.sent(), row.sent)
		})
	}
}
