package request_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

var otherCharge = body("amount=999&currency=eur")

func TestNameTakesNoOtherCarriedKey(t *testing.T) {
	t.Parallel()
	each(t, "a second name with the key: nothing is sent", func(t *testing.T, j machine.Store) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		require.NoError(t, p.Ask(named(t, "invoice-1"), carrying("k-1")).Err)
		for _, options := range [][]option{{carrying("k-1")}, {carrying("k-1"), otherCharge}} {
			out := p.Ask(named(t, "invoice-2"), options...)
			require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
			assert.ErrorContains(t, out.Err, "another operation has the request's key")
			assert.Equal(t, "invoice-1", out.Op.ID, "in one scope it says which")
			assert.Nil(t, out.Op.Answer)
		}
		assert.Equal(t, []string{"k-1"}, l.Keys())
		_, err := p.Operation(t.Context(), onceward.Ref{ID: "invoice-2"})
		require.ErrorIs(t, err, journal.ErrNotFound, "it was not begun")

		require.NoError(t, p.Ask(named(t, "invoice-2"), carrying("k-2")).Err, "with a key of its own it is")
	})
	each(t, "an unnamed one has it: nothing is sent", func(t *testing.T, j machine.Store) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		require.NoError(t, p.Ask(t.Context(), carrying("k-1")).Err)
		require.ErrorIs(t, p.Ask(named(t, "invoice-1"), carrying("k-1")).Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
	})
	each(t, "while the other one is being sent: nothing is sent", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(takes(20*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{Journal: j})
		first := make(chan outcome, 1)
		go func() { first <- p.Ask(named(t, "invoice-1"), carrying("k-1")) }()
		synctest.Wait()
		require.ErrorIs(t, p.Ask(named(t, "invoice-2"), carrying("k-1")).Err, onceward.ErrKeyReused)
		require.NoError(t, (<-first).Err)
		assert.Len(t, l.Sent(), 1)
	})
	each(t, "the first key of a name stays", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		out := p.Ask(named(t, "invoice-1"), carrying("k-1"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		pass(time.Until(out.Op.DueAt))
		require.NoError(t, p.Ask(named(t, "invoice-1"), carrying("k-2")).Err)
		assert.Equal(t, []string{"k-1", "k-1"}, l.Keys())
		require.NoError(t, p.Ask(named(t, "invoice-2"), carrying("k-2")).Err, "the second one never went out")
	})
}

// A crashed caller finds its operation by name or by key.
func TestCarriedKeyOrNameFindsAfterACrash(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{true, false} {
		name := map[bool]string{true: "begun under a name", false: "begun without one"}[named]
		each(t, name, func(t *testing.T, j machine.Store) {
			ctx, tenant := t.Context(), "tenant-42"
			ctx = onceward.WithScope(ctx, tenant)
			unnamed := ctx
			if named {
				ctx = onceward.WithOperation(ctx, "invoice-1")
			}
			l := (&line{}).Then(takes(time.Minute, says(200, paid)))
			dead := start(t, l, onceward.Config{Journal: j})
			leavesInFlight(t, dead, l, func() { dead.Ask(ctx, carrying("k-1")) })

			p := start(t, l, onceward.Config{Journal: j})
			op, err := p.OperationByKey(keyed(unnamed), "k-1")
			require.NoError(t, err)
			assert.Equal(t, tenant, op.Scope)
			assert.Equal(t, onceward.Key("k-1"), op.Key)
			assert.Equal(t, named, op.ID == "invoice-1")
			assert.Equal(t, onceward.StateInFlight, op.State)

			out := p.Ask(unnamed, carrying("k-1"))
			require.NoError(t, out.Err)
			assert.Equal(t, op.Ref, out.Op.Ref, "it is that operation")
			again := p.Ask(unnamed, carrying("k-1"))
			require.NoError(t, again.Err)
			assert.True(t, again.Op.Replayed)
			if named {
				require.NoError(t, p.Ask(ctx).Err, "by its name it is found as well")
			}
			assert.Equal(t, []string{"k-1", "k-1"}, l.Keys())

			out = p.Ask(unnamed, carrying("k-1"), otherCharge)
			require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
			_, err = p.OperationByKey(keyed(t.Context()), "k-1")
			require.ErrorIs(t, err, journal.ErrNotFound, "in its scope only")
		})
	}
}

// One carried key in two scopes.
func TestCarriedKeyInTwoScopes(t *testing.T) {
	t.Parallel()
	for _, perScope := range []bool{false, true} {
		name := map[bool]string{false: "which the provider knows as one", true: "which never meet at the provider"}[perScope]
		stripe := providers.Stripe()
		stripe.KeysPerScope = perScope
		for _, aName := range []string{"", "invoice-1"} {
			for _, bName := range []string{"", "invoice-1", "invoice-2"} {
				each(t, strings.Join([]string{name, "named", aName, "and", bName}, " "), func(t *testing.T, j machine.Store) {
					l := &line{}
					p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{stripe}})
					in := func(scope, name string) context.Context {
						ctx := onceward.WithScope(t.Context(), scope)
						if name != "" {
							ctx = onceward.WithOperation(ctx, name)
						}
						return ctx
					}
					require.NoError(t, p.Ask(in("a", aName), carrying("order-1")).Err)
					out := p.Ask(in("b", bName), carrying("order-1"))
					none := p.Ask(in("", bName), carrying("order-1"))
					if perScope {
						require.NoError(t, out.Err)
						require.NoError(t, none.Err)
						assert.Len(t, l.Sent(), 3)
						assert.Equal(t, "b", out.Op.Scope)
						return
					}
					for _, out := range []outcome{out, none} {
						require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
						assert.Equal(t, journal.StateAbsent, out.Op.State, "nothing is revealed")
						assert.Empty(t, out.Op.Key)
						if bName == "" {
							assert.NotContains(t, out.Err.Error(), "invoice-1")
						}
					}
					assert.Len(t, l.Sent(), 1)
					require.NoError(t, p.Ask(in("a", aName), carrying("order-1")).Err)
					assert.Len(t, l.Sent(), 1)
				})
			}
		}
	}
}

// One carried key at two providers or accounts is two operations.
func TestCarriedKeyAtTwoProvidersOrAccounts(t *testing.T) {
	t.Parallel()
	raw := to(http.MethodPost, "https://one.example/orders")
	for name, row := range map[string][2]struct {
		options []option
		account string
	}{
		"two providers":         {{}, {options: []option{to(http.MethodPost, ownURL)}}},
		"two hosts that may be": {{options: []option{raw}}, {options: []option{to(http.MethodPost, "https://two.example/orders")}}},
		"two account headers":   {{options: []option{with("Stripe-Account", "acct_1")}}, {options: []option{with("Stripe-Account", "acct_2")}}},
		"two account labels":    {{account: "seller-1"}, {account: "seller-2"}},
		"one value of either header": {
			{options: []option{to(http.MethodPost, ownURL), with("X-Merchant", "1")}}, {options: []option{to(http.MethodPost, ownURL), with("X-Seller", "1")}},
		},
		"values of one header, and of two": {
			{options: []option{to(http.MethodPost, ownURL), func(r *http.Request) { r.Header["X-Merchant"] = []string{"1", "X-Seller", "2"} }}},
			{options: []option{to(http.MethodPost, ownURL), with("X-Merchant", "1"), with("X-Seller", "2")}},
		},
	} {
		for _, names := range [][2]string{{}, {"invoice-1", "invoice-2"}} {
			each(t, name+" "+strings.Join(names[:], " "), func(t *testing.T, j machine.Store) {
				l := &line{}
				everywhere := providers.Raw(time.Hour).WithStoredFailures()
				everywhere.Name = "everywhere"
				ours := own()
				ours.AccountHeaders = []string{"X-Merchant", "X-Seller"}
				p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe(), ours, everywhere}})
				for i, side := range row {
					ctx := onceward.WithAccount(t.Context(), side.account)
					lookup := keyed(ctx, side.options...)
					if names[i] != "" {
						ctx = onceward.WithOperation(ctx, names[i])
					}
					for range 2 {
						require.NoError(t, p.Ask(ctx, append(side.options, carrying("order-1"))...).Err)
						require.Len(t, l.Sent(), i+1)
					}
					op, err := p.OperationByKey(lookup, "order-1")
					require.NoError(t, err)
					assert.Equal(t, l.Sent()[i].URL, op.URL)
				}
			})
		}
	}
}

func TestForeignKeyTakesNoName(t *testing.T) {
	const name = "invoice-991/charge"
	for _, first := range []string{"the name", "the key"} {
		each(t, "first "+first, func(t *testing.T, j machine.Store) {
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j})
			asks := []func() outcome{
				func() outcome { return p.Ask(named(t, name)) },
				func() outcome { return p.Ask(t.Context(), carrying(name), otherCharge) },
			}
			if first == "the key" {
				asks[0], asks[1] = asks[1], asks[0]
			}
			for i := range asks {
				out := asks[i]()
				require.NoError(t, out.Err)
				assert.False(t, out.Op.Replayed)
			}
			require.Len(t, l.Sent(), 2)
			op := p.Recorded(onceward.Ref{ID: name})
			assert.Equal(t, journal.Named, op.Naming)
			assert.Equal(t, chargeForm, string(op.Request.Body))
		})
	}
	virtual(t, "under a parent the stranger's key is neither sent nor a name", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		parent := onceward.NewKey()
		ctx := onceward.WithParent(named(t, name), parent)
		require.NoError(t, p.Ask(ctx).Err)
		for _, stranger := range []string{name, string(parent), string(parent.Child(name))} {
			out := p.Ask(t.Context(), carrying(stranger), otherCharge)
			require.NoError(t, out.Err, "a carried key is in a namespace of its own")
			assert.Equal(t, carriedRef(stranger), out.Op.Ref)
		}
	})
	virtual(t, "no application can name the parent of carried keys", func(t *testing.T) {
		p := start(t, &line{}, onceward.Config{})
		out := p.Ask(onceward.WithParent(named(t, "k-1"), onceward.Key("key at api.stripe.com")))
		require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
	})
}

func TestAccountLabelIsPartOfAName(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{providers.Square(24 * time.Hour)}})
		square := []option{to(http.MethodPost, "https://connect.squareup.com/v2/payments"), with("Content-Type", "application/json"), body(`{"amount":1}`)}
		seller := func(name string) context.Context { return onceward.WithAccount(named(t, "invoice-1"), name) }
		require.NoError(t, p.Ask(seller("seller-a"), square...).Err)
		out := p.Ask(seller("seller-b"), square...)
		require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
		var e *onceward.Error
		require.ErrorAs(t, out.Err, &e)
		assert.Equal(t, []string{"account"}, e.Differs)
		require.NoError(t, p.Ask(seller("seller-a"), square...).Err)
		assert.Len(t, l.Sent(), 1)
		for name, values := range l.Sent()[0].Header {
			assert.NotContains(t, name+strings.Join(values, " "), "seller-a", "it is not sent")
		}
		assert.NotContains(t, l.Sent()[0].Body, "seller-a")

		out = p.Ask(seller("a\x00b"), square...)
		require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
	})
}

// The error of a call that was never recorded describes the operation that has its key, whatever its name.
func TestACallThatIsNotBegunLooksByItsKeyToo(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, "invoice-1"), carrying("k-1")).Err, onceward.ErrPending)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Ask(over, carrying("k-1")).Err, onceward.ErrPending)
		require.ErrorIs(t, p.Ask(over, carrying("k-2")).Err, onceward.ErrNotSent)
		require.ErrorIs(t, p.Ask(onceward.WithScope(over, "b"), carrying("k-1")).Err, onceward.ErrNotSent, "another scope's says nothing")
	})
}

// An unnamed call's error under a parent names its step, even if the call was never recorded.
func TestUnnamedCallNotBegunNamesItsStep(t *testing.T) {
	scoped := own(func(e *providers.Endpoint) { e.InFlightGuard = true })
	scoped.CredentialScoped = true
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		fails := false
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{scoped}, Authorize: func(*http.Request) error {
			if fails {
				return errReset
			}
			return nil
		}})
		parent := onceward.NewKey()
		order := to(http.MethodPost, ownURL)
		require.ErrorIs(t, p.Ask(onceward.WithParent(t.Context(), parent), order).Err, onceward.ErrPending)

		// The next run under the same parent has an expired context, or no credential.
		over, cancel := context.WithCancel(onceward.WithParent(t.Context(), parent))
		cancel()
		require.ErrorIs(t, p.Ask(over, order).Err, onceward.ErrPending, "it may have taken effect")
		fails = true
		require.ErrorIs(t, p.Ask(onceward.WithParent(t.Context(), parent), order).Err, onceward.ErrPending)
		require.ErrorIs(t, p.Ask(onceward.WithParent(t.Context(), onceward.NewKey()), order).Err, onceward.ErrNotSent)
		assert.Len(t, l.Sent(), 1)
	})
}

// A caller can read an unnamed operation's key from an error. A call that carries this key finds the operation.
func TestMadeKeyFindsAnUnnamedOperation(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(frozen)
		p := start(t, l, onceward.Config{Journal: j})
		out := p.Ask(t.Context())
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, carriedRef(string(out.Op.Key)), out.Op.Ref)
		require.ErrorIs(t, p.Ask(t.Context(), carrying(string(out.Op.Key))).Err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.Sent(), 1)
		op, err := p.OperationByKey(keyed(t.Context()), out.Op.Key)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, op.State)
	})
}

// A corrected configuration or table does not hide the carried key of an operation that was recorded under the old one.
func TestCarriedKeyUnderACorrectedConfig(t *testing.T) {
	t.Parallel()
	sendsOnce := func(t *testing.T, j machine.Store, before, after []providers.Provider, options ...option) (first, second outcome) {
		l := (&line{}).Then(loses())
		options = append(options, carrying("order-1"))
		dead := start(t, l, onceward.Config{Journal: j, Providers: before, Backoff: once})
		first = dead.Ask(t.Context(), options...)
		dead.Crash()
		second = start(t, l, onceward.Config{Journal: j, Providers: after, Backoff: once}).Ask(t.Context(), options...)
		assert.Len(t, l.Sent(), 1)
		return first, second
	}
	order := to(http.MethodPost, ownURL)
	each(t, "an API under another name, or as one of any host's", func(t *testing.T, j machine.Store) {
		renamed := own()
		renamed.Name = "ledger"
		first, second := sendsOnce(t, j, []providers.Provider{own()}, []providers.Provider{renamed}, order)
		require.Error(t, first.Err)
		assert.Equal(t, first.Op.Ref, second.Op.Ref)
		assert.NotErrorIs(t, second.Err, onceward.ErrNotSent)
	})
	each(t, "a host that is listed by now", func(t *testing.T, j machine.Store) {
		first, second := sendsOnce(t, j, []providers.Provider{providers.Raw(time.Hour).WithStoredFailures()}, []providers.Provider{own()}, order)
		require.Error(t, first.Err)
		assert.Equal(t, first.Op.Ref, second.Op.Ref)
	})
	each(t, "a header that the table knows for an account's by now", func(t *testing.T, j machine.Store) {
		now := own()
		now.AccountHeaders = []string{"X-Account"}
		_, second := sendsOnce(t, j, []providers.Provider{own()}, []providers.Provider{now}, order, with("X-Account", "acc_1"))
		require.ErrorIs(t, second.Err, onceward.ErrKeyReused)
	})
	each(t, "a label that the program gives by now", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(t.Context(), carrying("order-1")).Err, onceward.ErrPending)
		labelled := onceward.WithAccount(t.Context(), "seller-1")
		require.ErrorIs(t, p.Ask(labelled, carrying("order-1")).Err, onceward.ErrKeyReused)
		require.NoError(t, p.Ask(labelled, carrying("order-2")).Err)
		require.NoError(t, p.Ask(t.Context(), carrying("order-2")).Err, "the label came first")
		require.NoError(t, p.Ask(labelled, carrying("order-2")).Err, "and has its answer")
		assert.Len(t, l.Sent(), 3)
	})
	each(t, "a label that the program gives by now, of an API under another name", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		dead := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}, Backoff: once})
		require.Error(t, dead.Ask(t.Context(), order, carrying("order-1")).Err)
		dead.Crash()
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{renamed("raw")}, Backoff: once})
		require.ErrorIs(t, p.Ask(onceward.WithAccount(t.Context(), "seller-1"), order, carrying("order-1")).Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
	})
	each(t, "a label that the program gives by now, beside the account's header", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		seller := with("Stripe-Account", "acct_1")
		require.ErrorIs(t, p.Ask(t.Context(), carrying("order-1"), seller).Err, onceward.ErrPending)
		labelled := onceward.WithAccount(t.Context(), "seller-1")
		require.ErrorIs(t, p.Ask(labelled, carrying("order-1"), seller).Err, onceward.ErrKeyReused)
		require.NoError(t, p.Ask(labelled, carrying("order-1"), with("Stripe-Account", "acct_2")).Err, "another's")
		assert.Len(t, l.Sent(), 2)
	})
	each(t, "another account's, without one and with one, are two", func(t *testing.T, j machine.Store) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		require.NoError(t, p.Ask(t.Context(), carrying("order-1")).Err, "the platform's own")
		require.NoError(t, p.Ask(t.Context(), carrying("order-1"), with("Stripe-Account", "acct_1")).Err)
		assert.Len(t, l.Sent(), 2)
	})
}

// A cancelled name does not take back its carried key if another operation has it now. A process without the provider's
// table began that one.
func TestCancelledNameDoesNotTakeAnotherKey(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(says(401, "{}"))
		knows := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		knowsNot := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.Stripe()}})
		require.Equal(t, 401, knows.Ask(named(t, "invoice-1"), toOwn, carrying("key-1")).Status)
		require.Equal(t, onceward.StateCancelled, knows.Recorded(onceward.Ref{ID: "invoice-1"}).State)
		require.NoError(t, knowsNot.Ask(named(t, "invoice-2"), toOwn, carrying("key-1")).Err)
		sent := len(l.Sent())
		require.ErrorIs(t, knows.Ask(named(t, "invoice-1"), toOwn, carrying("key-1")).Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), sent)
	})
}

func TestACancelledNameIsNotTakenByItsKey(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(wrongKey)
		p := start(t, l, onceward.Config{Journal: j})
		p.Ask(named(t, "invoice-1"), carrying("k-1"))
		require.Equal(t, onceward.StateCancelled, p.Recorded(onceward.Ref{ID: "invoice-1"}).State)
		require.ErrorIs(t, p.Ask(t.Context(), carrying("k-1"), otherCharge).Err, onceward.ErrKeyReused)
		assert.Equal(t, chargeForm, string(p.Recorded(onceward.Ref{ID: "invoice-1"}).Request.Body))
		require.NoError(t, p.Ask(t.Context(), carrying("k-1")).Err, "the same request is that operation")
		assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: "invoice-1"}).State)
		assert.Equal(t, []string{"k-1", "k-1"}, l.Keys())
	})
}

// A name can't take a key that was generated for another operation.
func TestMadeKeyIsTakenByNoName(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(remembers(providers.Nothing), func(e *providers.Endpoint) { e.Retention = 0 })}, Backoff: once})
		lost := p.Ask(t.Context(), to(http.MethodPost, ownURL))
		require.ErrorIs(t, lost.Err, onceward.ErrOutcomeUnknown)
		out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL), carrying(string(lost.Op.Key)))
		require.ErrorIs(t, out.Err, onceward.ErrKeyReused, "it may have taken effect")
		assert.Len(t, l.Sent(), 1)

		_, err := p.ResolveAs(lost.Op.Ref, onceward.NotExecuted, nil)
		require.NoError(t, err)
		require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL), carrying(string(lost.Op.Key))).Err)
		assert.Len(t, l.Sent(), 2)
	})
}

// A cancelled caller who names an account does not get ErrNotSent if its key was sent before without the account.
func TestCancelledUnderAKeyBeforeItsLabel(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		require.Error(t, p.Ask(t.Context(), to("POST", ownURL), carrying("k-1")).Err)
		ctx, cancel := context.WithCancel(onceward.WithAccount(t.Context(), "seller-1"))
		cancel()
		err := p.Ask(ctx, to("POST", ownURL), carrying("k-1")).Err
		assert.NotErrorIs(t, err, onceward.ErrNotSent)
		assert.ErrorIs(t, err, onceward.ErrKeyReused)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

// A carried key does not find an operation that was recorded while its endpoint took no key.
func TestCarriedKeyOfAKeylessOperation(t *testing.T) {
	keyless := func(e *providers.Endpoint) { *e = providers.Endpoint{Pattern: e.Pattern} }
	for _, first := range []string{"invoice-1", "invoice-2"} {
		each(t, first+" is asked for first", func(t *testing.T, j machine.Store) {
			l := (&line{}).Always(refuses())
			was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own(keyless)}})
			require.Error(t, was.Ask(named(t, "invoice-1"), toOwn).Err)
			pass(2 * time.Hour)
			l.Always(says(200, paid))
			now := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
			second := map[string]string{"invoice-1": "invoice-2", "invoice-2": "invoice-1"}[first]
			require.NoError(t, now.Ask(named(t, first), toOwn, carrying("key-1")).Err)
			require.NoError(t, now.Ask(named(t, second), toOwn, carrying("key-1")).Err)
			assert.Len(t, l.Sent(), 2)
			assert.Len(t, distinct(l.Keys()), 2, fmt.Sprint("no two share a key: ", l.Keys()))
			assert.Equal(t, http.StatusOK, now.Ask(t.Context(), toOwn, carrying("key-1")).Status)
			assert.Len(t, l.Sent(), 2)
		})
	}
}

func TestOperationByKeyReportsItsError(t *testing.T) {
	p := start(t, &line{}, onceward.Config{Journal: hides{memory.New(), carriedRef("").Parent}})
	req, err := http.NewRequest(http.MethodPost, chargeURL, nil)
	require.NoError(t, err)
	_, err = p.OperationByKey(req, "key-1")
	require.ErrorIs(t, err, errDiskFull)
	require.ErrorContains(t, err, "look up an operation by its key")
	for _, u := range []*url.URL{nil, {Path: "/v1/charges"}} {
		req.URL = u
		_, err = p.OperationByKey(req, "key-1")
		require.ErrorContains(t, err, "has no URL")
	}
}

// A name can't take a key that was generated for another operation of the same account.
func TestMadeKeyOfAnAccount(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(frozen)
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		lost := p.Ask(onceward.WithAccount(t.Context(), "seller-1"))
		require.ErrorIs(t, lost.Err, onceward.ErrOutcomeUnknown)
		out := p.Ask(onceward.WithAccount(named(t, invoice), "seller-1"), carrying(string(lost.Op.Key)))
		require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
	})
}

// At a host that no provider serves, too, a carried key is the same in all scopes.
func TestCarriedKeyInTwoScopesUnlisted(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		ask := func(scope string) outcome {
			return p.Ask(onceward.WithScope(named(t, invoice), scope), to(http.MethodPost, "https://unlisted.example/x"), carrying("k-1"))
		}
		require.NoError(t, ask("a").Err)
		require.ErrorIs(t, ask("b").Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
	})
}

// hides is a journal that can't be read at one parent.
type hides struct {
	machine.Store
	parent string
}

func (j hides) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if ref.Parent == j.parent {
		return journal.Operation{}, errDiskFull
	}
	return j.Store.Get(ctx, ref)
}

// A call with a carried key that Onceward may have generated is not sent while the journal can't be read for its owner.
func TestMadeKeyThatCantBeRead(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l, m := &line{}, memory.New()
		lost := start(t, l, onceward.Config{Journal: m}).Ask(onceward.WithAccount(t.Context(), "seller-1"))
		require.NoError(t, lost.Err)
		p := start(t, l, onceward.Config{Journal: hides{m, lost.Op.Parent}})
		out := p.Ask(onceward.WithAccount(named(t, invoice), "seller-1"), carrying(string(lost.Op.Key)))
		require.ErrorIs(t, out.Err, onceward.ErrJournal)
		assert.Len(t, l.Sent(), 1)
	})
}

// A name can't take a carried key that looks generated and came without a name before. That holds after its table is
// renamed, too.
func TestMadeKeyBroughtAlongBefore(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l, key := &line{}, string(onceward.NewKey())
		was := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
		require.NoError(t, was.Ask(t.Context(), toOwn, carrying(key)).Err)
		renamed := own()
		renamed.Name = "renamed"
		now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{renamed}})
		require.ErrorIs(t, now.Ask(named(t, invoice), toOwn, carrying(key)).Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
	})
}

// A call with a new carried key begins without a read of its own name. It does not read generated keys either, because
// this key can't be one.
func TestCarriedKeyOfNoOperation(t *testing.T) {
	for parent, account := range map[string]string{"": "seller-1", carriedRef("").Parent: ""} {
		virtual(t, parent, func(t *testing.T) {
			p := start(t, &line{}, onceward.Config{Journal: hides{memory.New(), parent}})
			require.NoError(t, p.Ask(onceward.WithAccount(named(t, invoice), account), carrying("k-1")).Err)
		})
	}
}
