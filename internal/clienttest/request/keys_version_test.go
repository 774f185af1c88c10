package request_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
)

const fourthVersion = `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`

// A provider that takes only UUIDs with one version gets no others, however the key is generated.
func TestKeyHasTheRequestedUUIDVersion(t *testing.T) {
	for _, row := range []struct {
		name    string
		secret  []byte
		parent  bool
		unnamed bool
		again   bool // the key is the same in a process that has nothing of the first one's
	}{
		{"a name, without a secret", nil, false, false, false},
		{"a name, with a secret", []byte("0123456789abcdef"), false, false, true},
		{"a step", nil, true, false, true},
		{"no name", nil, false, true, false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			api := own(func(e *providers.Endpoint) { e.Key.UUIDVersion = 4 })
			parent := onceward.NewKey()
			var keys []onceward.Key
			for range 2 {
				l := (&line{}).Then(says(200, "{}"))
				p := start(t, l, onceward.Config{Providers: []providers.Provider{api}, Secret: row.secret})
				ctx := named(t, "order-1")
				if row.unnamed {
					ctx = t.Context()
				}
				if row.parent {
					ctx = onceward.WithParent(ctx, parent)
				}
				out := p.Ask(ctx, to(http.MethodPost, ownURL))
				require.NoError(t, out.Err)
				assert.Regexp(t, fourthVersion, string(out.Op.Key))
				keys = append(keys, out.Op.Key)
			}
			assert.Equal(t, row.again, keys[0] == keys[1])
		})
	}
}

// A derived key is not taken for a random one by its version. Another program may have sent it.
func TestKeyVersionOfADerivedKey(t *testing.T) {
	for name, row := range map[string]struct {
		secret []byte
		state  onceward.State
	}{
		"at random": {nil, onceward.StateCompleted},
		"derived":   {[]byte("0123456789abcdef"), onceward.StateUnknown},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(says(409, `{"code":"insufficient_balance"}`))
			api := own(func(e *providers.Endpoint) {
				e.Key.UUIDVersion = 4
				e.Rules = []providers.Rule{
					{Status: 409, Field: "code", On: providers.FirstAttemptOwnKey, Verdict: providers.Final},
					{Status: 409, Verdict: providers.Indeterminate},
				}
			})
			p := start(t, l, onceward.Config{Providers: []providers.Provider{api}, Secret: row.secret})
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
			assert.Regexp(t, fourthVersion, string(out.Op.Key))
			assert.Equal(t, row.state, out.Op.State)
		})
	}
}

// An operation keeps its key when its table asks for a version later. Another key would be a second effect.
func TestKeyVersionDeclaredLater(t *testing.T) {
	virtual(t, "resumed", func(t *testing.T) {
		l := (&line{}).Then(loses(), says(200, "{}"))
		secret := []byte("0123456789abcdef")
		was := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, Secret: secret, Backoff: once})
		first := was.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
		require.Error(t, first.Err)
		require.Equal(t, onceward.StatePending, first.Op.State)
		require.NotRegexp(t, fourthVersion, string(first.Op.Key))

		api := own(func(e *providers.Endpoint) { e.Key.UUIDVersion = 4 })
		now := start(t, l, onceward.Config{Providers: []providers.Provider{api}, Secret: secret, Journal: was.Journal.Store})
		pass(time.Hour)
		out := now.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
		require.NoError(t, out.Err)
		assert.Equal(t, first.Op.Key, out.Op.Key)
		for _, sent := range l.Sent() {
			assert.Equal(t, string(first.Op.Key), sent.Key)
		}
	})
}

// A later generation's key has the version too.
func TestKeyVersionOfALaterGeneration(t *testing.T) {
	for name, secret := range map[string][]byte{"at random": nil, "derived": []byte("0123456789abcdef")} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(loses(), says(200, "{}"))
			api := own(func(e *providers.Endpoint) {
				e.Key.UUIDVersion, e.Retention, e.Remembers, e.InFlightGuard = 4, 0, providers.Nothing, false
			})
			p := start(t, l, onceward.Config{Providers: []providers.Provider{api}, Secret: secret})
			first := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
			require.ErrorIs(t, first.Err, onceward.ErrOutcomeUnknown)
			_, err := p.ResolveAs(first.Op.Ref, onceward.SendAgain, nil)
			require.NoError(t, err)
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
			require.NoError(t, out.Err)
			assert.NotEqual(t, first.Op.Key, out.Op.Key)
			assert.Regexp(t, fourthVersion, string(out.Op.Key))
		})
	}
}

// A carried key with another version is refused.
func TestKeyVersionOfABroughtKeyIsRefused(t *testing.T) {
	virtual(t, "carried", func(t *testing.T) {
		l := (&line{}).Then(says(200, "{}"))
		api := own(func(e *providers.Endpoint) { e.Key.UUIDVersion = 4 })
		p := start(t, l, onceward.Config{Providers: []providers.Provider{api}})
		derived := onceward.NewKey().Child("a step")
		require.ErrorIs(t, p.Ask(t.Context(), to(http.MethodPost, ownURL), carrying(string(derived))).Err, onceward.ErrInvalidRequest)
		assert.Empty(t, l.Sent())
		require.NoError(t, p.Ask(t.Context(), to(http.MethodPost, ownURL), carrying(string(onceward.NewKey()))).Err)
	})
}

// A carried key with another version still finds the operation that was recorded with it, whatever the table says now.
func TestKeyVersionOfABroughtKeyFinds(t *testing.T) {
	t.Parallel()
	api := own(func(e *providers.Endpoint) { e.Key.UUIDVersion = 4 })
	derived := string(onceward.NewKey().Child("a step"))
	for _, name := range []string{"", "invoice-1"} {
		for _, answered := range []bool{true, false} {
			each(t, fmt.Sprintf("named %q, answered: %v", name, answered), func(t *testing.T, j machine.Store) {
				ctx := t.Context()
				if name != "" {
					ctx = named(t, name)
				}
				l := &line{}
				if !answered {
					l.Then(loses())
				}
				was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
				first := was.Ask(ctx, toOwn, carrying(derived))
				require.Equal(t, answered, first.Err == nil)
				pass(2 * time.Hour)

				now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{api}})
				out := now.Ask(ctx, toOwn, carrying(derived))
				require.NoError(t, out.Err)
				assert.Equal(t, first.Op.Ref, out.Op.Ref)
				assert.Equal(t, answered, out.Op.Replayed)
				assert.Equal(t, []string{derived}, slices.Compact(l.Keys()))
				require.ErrorIs(t, now.Ask(named(t, "invoice-2"), toOwn, carrying(derived)).Err, onceward.ErrInvalidRequest)
			})
		}
	}
}

// A carried key with another version is refused once its operation is cancelled, because the provider would refuse it.
func TestKeyVersionOfABroughtKeyOnceCancelled(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		derived := string(onceward.NewKey().Child("a step"))
		l := (&line{}).Then(wrongKey)
		was := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
		require.Equal(t, onceward.StateCancelled, was.Ask(t.Context(), toOwn, carrying(derived)).Op.State)
		api := own(func(e *providers.Endpoint) { e.Key.UUIDVersion = 4 })
		now := start(t, l, onceward.Config{Journal: was.Journal.Store, Providers: []providers.Provider{api}})
		require.ErrorIs(t, now.Ask(t.Context(), toOwn, carrying(derived)).Err, onceward.ErrInvalidRequest)
		assert.Len(t, l.Sent(), 1)
	})
}

// Authorize does not change a key in a query, of whatever version.
func TestKeyVersionInAQuery(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		inQuery := func(e *providers.Endpoint) { e.Key = providers.Key{Place: providers.KeyQuery, Name: "key"} }
		secret := []byte("0123456789abcdef")
		authorize := func(r *http.Request) error { r.Header.Set("Authorization", "Bearer made-up"); return nil }
		l := (&line{}).Then(loses(), says(200, "{}"))
		was := start(t, l, onceward.Config{Providers: []providers.Provider{own(inQuery)}, Secret: secret, Backoff: once, Authorize: authorize})
		require.Error(t, was.Ask(named(t, "order-1"), toOwn).Err)
		pass(time.Hour)
		asks := own(inQuery, func(e *providers.Endpoint) { e.Key.UUIDVersion = 4 })
		now := start(t, l, onceward.Config{Providers: []providers.Provider{asks}, Secret: secret, Journal: was.Journal.Store, Authorize: authorize})
		require.NoError(t, now.Ask(named(t, "order-1"), toOwn).Err)
		require.Len(t, l.Sent(), 2)
		assert.Equal(t, l.Sent()[0].URL, l.Sent()[1].URL)
	})
}

// A generated key of any version can't be taken by a name. A caller that carries it under a name has read it in an
// error.
func TestKeyVersionOfAMadeKeyIsTakenByNoName(t *testing.T) {
	t.Parallel()
	for _, version := range []int{0, 4, 5, 7, 8} {
		each(t, fmt.Sprint(version), func(t *testing.T, j machine.Store) {
			api := own(func(e *providers.Endpoint) { e.Key.UUIDVersion = version })
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{api}})
			first := p.Ask(t.Context(), toOwn)
			require.Error(t, first.Err)
			require.ErrorIs(t, p.Ask(named(t, "invoice-2"), toOwn, carrying(string(first.Op.Key))).Err, onceward.ErrKeyReused)
			assert.Len(t, l.Sent(), 1)
		})
	}
}
