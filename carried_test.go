package onceward_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// carriedRef is where an unnamed operation with a carried key is, at Stripe.
func carriedRef(key string) onceward.Ref {
	return onceward.Ref{Parent: "key at api.stripe.com", ID: key}
}

// keyed is a request to Stripe as LookupKey takes it.
func keyed(ctx context.Context, options ...option) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chargeURL, nil)
	if err != nil {
		panic(err)
	}
	for _, o := range options {
		o(req)
	}
	return req
}

var otherCharge = body("amount=999&currency=eur")

func TestANameTakesNoOthersCarriedKey(t *testing.T) {
	each(t, "a second name with the key: nothing is sent", func(t *testing.T, j journal.Journal) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		require.NoError(t, p.ask(named(t, "invoice-1"), carrying("k-1")).err)
		for _, options := range [][]option{{carrying("k-1")}, {carrying("k-1"), otherCharge}} {
			out := p.ask(named(t, "invoice-2"), options...)
			require.ErrorIs(t, out.err, onceward.ErrKeyReused)
			assert.ErrorContains(t, out.err, "another operation has the key")
			assert.Equal(t, "invoice-1", out.op.ID, "in one scope it says which")
			assert.Nil(t, out.op.Answer)
		}
		assert.Equal(t, []string{"k-1"}, l.keys())
		_, err := p.Lookup(t.Context(), onceward.Ref{ID: "invoice-2"})
		require.ErrorIs(t, err, journal.ErrNotFound, "it was not begun")

		require.NoError(t, p.ask(named(t, "invoice-2"), carrying("k-2")).err, "with a key of its own it is")
	})
	each(t, "an unnamed one has it: nothing is sent", func(t *testing.T, j journal.Journal) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		require.NoError(t, p.ask(t.Context(), carrying("k-1")).err)
		require.ErrorIs(t, p.ask(named(t, "invoice-1"), carrying("k-1")).err, onceward.ErrKeyReused)
		assert.Len(t, l.sent(), 1)
	})
	each(t, "while the other one is being sent: nothing is sent", func(t *testing.T, j journal.Journal) {
		l := (&line{}).always(takes(20*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{Journal: j})
		first := make(chan outcome, 1)
		go func() { first <- p.ask(named(t, "invoice-1"), carrying("k-1")) }()
		synctest.Wait()
		require.ErrorIs(t, p.ask(named(t, "invoice-2"), carrying("k-1")).err, onceward.ErrKeyReused)
		require.NoError(t, (<-first).err)
		assert.Len(t, l.sent(), 1)
	})
	each(t, "the first key of a name stays", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		out := p.ask(named(t, "invoice-1"), carrying("k-1"))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		pass(time.Until(out.op.DueAt))
		require.NoError(t, p.ask(named(t, "invoice-1"), carrying("k-2")).err)
		assert.Equal(t, []string{"k-1", "k-1"}, l.keys())
		require.NoError(t, p.ask(named(t, "invoice-2"), carrying("k-2")).err, "the second one never went out")
	})
}

func TestACrashedCallerFindsItsOperationByNameOrByKey(t *testing.T) {
	for _, named := range []bool{true, false} {
		name := map[bool]string{true: "begun under a name", false: "begun without one"}[named]
		each(t, name, func(t *testing.T, j journal.Journal) {
			ctx, tenant := t.Context(), "tenant-42"
			ctx = onceward.WithScope(ctx, tenant)
			unnamed := ctx
			if named {
				ctx = onceward.WithOperation(ctx, "invoice-1")
			}
			l := (&line{}).then(takes(time.Minute, says(200, paid)))
			dead := start(t, l, onceward.Config{Journal: j})
			leavesInFlight(t, dead, l, func() { dead.ask(ctx, carrying("k-1")) })

			p := start(t, l, onceward.Config{Journal: j})
			op, err := p.LookupKey(keyed(unnamed), "k-1")
			require.NoError(t, err)
			assert.Equal(t, tenant, op.Scope)
			assert.Equal(t, onceward.Key("k-1"), op.Key)
			assert.Equal(t, named, op.ID == "invoice-1")
			assert.Equal(t, onceward.InFlight, op.State)

			out := p.ask(unnamed, carrying("k-1"))
			require.NoError(t, out.err)
			assert.Equal(t, op.Ref, out.op.Ref, "it is that operation")
			again := p.ask(unnamed, carrying("k-1"))
			require.NoError(t, again.err)
			assert.True(t, again.op.Replayed)
			if named {
				require.NoError(t, p.ask(ctx).err, "by its name it is found as well")
			}
			assert.Equal(t, []string{"k-1", "k-1"}, l.keys())

			out = p.ask(unnamed, carrying("k-1"), otherCharge)
			require.ErrorIs(t, out.err, onceward.ErrKeyReused)
			_, err = p.LookupKey(keyed(t.Context()), "k-1")
			require.ErrorIs(t, err, journal.ErrNotFound, "in its scope only")
		})
	}
}

func TestOneCarriedKeyInTwoScopes(t *testing.T) {
	for _, perScope := range []bool{false, true} {
		name := map[bool]string{false: "which the provider knows as one", true: "which never meet at the provider"}[perScope]
		stripe := providers.Stripe()
		stripe.KeysPerScope = perScope
		for _, aName := range []string{"", "invoice-1"} {
			for _, bName := range []string{"", "invoice-1", "invoice-2"} {
				each(t, strings.Join([]string{name, "named", aName, "and", bName}, " "), func(t *testing.T, j journal.Journal) {
					l := &line{}
					p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{stripe}})
					in := func(scope, name string) context.Context {
						ctx := onceward.WithScope(t.Context(), scope)
						if name != "" {
							ctx = onceward.WithOperation(ctx, name)
						}
						return ctx
					}
					require.NoError(t, p.ask(in("a", aName), carrying("order-1")).err)
					out := p.ask(in("b", bName), carrying("order-1"))
					none := p.ask(in("", bName), carrying("order-1"))
					if perScope {
						require.NoError(t, out.err)
						require.NoError(t, none.err)
						assert.Len(t, l.sent(), 3)
						assert.Equal(t, "b", out.op.Scope)
						return
					}
					for _, out := range []outcome{out, none} {
						require.ErrorIs(t, out.err, onceward.ErrKeyReused)
						assert.Equal(t, journal.Absent, out.op.State, "nothing is revealed")
						assert.Empty(t, out.op.Key)
						if bName == "" {
							assert.NotContains(t, out.err.Error(), "invoice-1")
						}
					}
					assert.Len(t, l.sent(), 1)
					require.NoError(t, p.ask(in("a", aName), carrying("order-1")).err)
					assert.Len(t, l.sent(), 1)
				})
			}
		}
	}
}

func TestOneCarriedKeyAtTwoProvidersOrAccountsIsTwoOperations(t *testing.T) {
	raw := to(http.MethodPost, "https://one.example/orders")
	for name, row := range map[string][2]struct {
		options []option
		account string
	}{
		"two providers":         {{}, {options: []option{to(http.MethodPost, ownURL)}}},
		"two hosts that may be": {{options: []option{raw}}, {options: []option{to(http.MethodPost, "https://two.example/orders")}}},
		"two account headers":   {{options: []option{with("Stripe-Account", "acct_1")}}, {options: []option{with("Stripe-Account", "acct_2")}}},
		"two account labels":    {{account: "seller-1"}, {account: "seller-2"}},
	} {
		for _, names := range [][2]string{{}, {"invoice-1", "invoice-2"}} {
			each(t, name+" "+strings.Join(names[:], " "), func(t *testing.T, j journal.Journal) {
				l := &line{}
				everywhere := providers.Raw(time.Hour)
				everywhere.Name = "everywhere"
				p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe(), own(), everywhere}})
				for i, side := range row {
					ctx := onceward.WithAccount(t.Context(), side.account)
					lookup := keyed(ctx, side.options...)
					if names[i] != "" {
						ctx = onceward.WithOperation(ctx, names[i])
					}
					for range 2 {
						require.NoError(t, p.ask(ctx, append(side.options, carrying("order-1"))...).err)
						require.Len(t, l.sent(), i+1)
					}
					op, err := p.LookupKey(lookup, "order-1")
					require.NoError(t, err)
					assert.Equal(t, l.sent()[i].URL, op.URL)
				}
			})
		}
	}
}

func TestAStrangersKeyTakesNoName(t *testing.T) {
	const name = "invoice-991/charge"
	for _, first := range []string{"the name", "the key"} {
		each(t, "first "+first, func(t *testing.T, j journal.Journal) {
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j})
			asks := []func() outcome{
				func() outcome { return p.ask(named(t, name)) },
				func() outcome { return p.ask(t.Context(), carrying(name), otherCharge) },
			}
			if first == "the key" {
				asks[0], asks[1] = asks[1], asks[0]
			}
			for i := range asks {
				out := asks[i]()
				require.NoError(t, out.err)
				assert.False(t, out.op.Replayed)
			}
			require.Len(t, l.sent(), 2)
			op := p.recorded(onceward.Ref{ID: name})
			assert.Equal(t, journal.Named, op.Naming)
			assert.Equal(t, chargeForm, string(op.Request.Body))
		})
	}
	virtual(t, "under a parent the stranger's key is neither sent nor a name", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		parent := onceward.NewKey()
		ctx := onceward.WithParent(named(t, name), parent)
		require.NoError(t, p.ask(ctx).err)
		for _, stranger := range []string{name, string(parent), string(parent.Child(name))} {
			out := p.ask(t.Context(), carrying(stranger), otherCharge)
			require.NoError(t, out.err, "a carried key is in a namespace of its own")
			assert.Equal(t, carriedRef(stranger), out.op.Ref)
		}
	})
	virtual(t, "no application can name the parent of carried keys", func(t *testing.T) {
		p := start(t, &line{}, onceward.Config{})
		out := p.ask(onceward.WithParent(named(t, "k-1"), onceward.Key("key at api.stripe.com")))
		require.ErrorIs(t, out.err, onceward.ErrInvalidRequest)
	})
}

func TestAnAccountLabelIsPartOfWhatANameIsOf(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{providers.Square(24 * time.Hour)}})
		square := []option{to(http.MethodPost, "https://connect.squareup.com/v2/payments"), with("Content-Type", "application/json"), body(`{"amount":1}`)}
		seller := func(name string) context.Context { return onceward.WithAccount(named(t, "invoice-1"), name) }
		require.NoError(t, p.ask(seller("seller-a"), square...).err)
		out := p.ask(seller("seller-b"), square...)
		require.ErrorIs(t, out.err, onceward.ErrKeyReused)
		var e *onceward.Error
		require.ErrorAs(t, out.err, &e)
		assert.Equal(t, []string{"account"}, e.Differs)
		require.NoError(t, p.ask(seller("seller-a"), square...).err)
		assert.Len(t, l.sent(), 1)
		for name, values := range l.sent()[0].Header {
			assert.NotContains(t, name+strings.Join(values, " "), "seller-a", "it is not sent")
		}
		assert.NotContains(t, l.sent()[0].Body, "seller-a")

		out = p.ask(seller("a\x00b"), square...)
		require.ErrorIs(t, out.err, onceward.ErrInvalidRequest)
	})
}

// A call that never came to its record tells of the one that had its key, whatever the
// name of that is.
func TestACallThatIsNotBegunLooksByItsKeyToo(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.ask(named(t, "invoice-1"), carrying("k-1")).err, onceward.ErrPending)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.ask(over, carrying("k-1")).err, onceward.ErrPending)
		require.ErrorIs(t, p.ask(over, carrying("k-2")).err, onceward.ErrNotSent)
		require.ErrorIs(t, p.ask(onceward.WithScope(over, "b"), carrying("k-1")).err, onceward.ErrNotSent, "another scope's says nothing")
	})
}

func TestAnUnnamedCallUnderAParentThatIsNotBegunTellsOfItsStep(t *testing.T) {
	scoped := own(func(e *providers.Endpoint) { e.InFlightGuard = true })
	scoped.CredentialScoped = true
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		fails := false
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{scoped}, Authorize: func(*http.Request) error {
			if fails {
				return errReset
			}
			return nil
		}})
		parent := onceward.NewKey()
		order := to(http.MethodPost, ownURL)
		require.ErrorIs(t, p.ask(onceward.WithParent(t.Context(), parent), order).err, onceward.ErrPending)

		// The next run under the same parent comes too late, or to no credential.
		over, cancel := context.WithCancel(onceward.WithParent(t.Context(), parent))
		cancel()
		require.ErrorIs(t, p.ask(over, order).err, onceward.ErrPending, "it may have taken effect")
		fails = true
		require.ErrorIs(t, p.ask(onceward.WithParent(t.Context(), parent), order).err, onceward.ErrPending)
		require.ErrorIs(t, p.ask(onceward.WithParent(t.Context(), onceward.NewKey()), order).err, onceward.ErrNotSent)
		assert.Len(t, l.sent(), 1)
	})
}

// Who reads the key of an unnamed operation from an error, and brings it along when
// asking again, is asking for that operation.
func TestAnUnnamedOperationIsFoundByTheKeyThatWasMadeForIt(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(frozen)
		p := start(t, l, onceward.Config{Journal: j})
		out := p.ask(t.Context())
		require.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, carriedRef(string(out.op.Key)), out.op.Ref)
		require.ErrorIs(t, p.ask(t.Context(), carrying(string(out.op.Key))).err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.sent(), 1)
		op, err := p.LookupKey(keyed(t.Context()), out.op.Key)
		require.NoError(t, err)
		assert.Equal(t, onceward.Unknown, op.State)
	})
}

// What a configuration or a table says now does not hide what was begun under another.
func TestACorrectedConfigurationHidesNoCarriedKey(t *testing.T) {
	sendsOnce := func(t *testing.T, j journal.Journal, before, after []providers.Provider, options ...option) (first, second outcome) {
		l := (&line{}).then(loses())
		options = append(options, carrying("order-1"))
		dead := start(t, l, onceward.Config{Journal: j, Providers: before, Backoff: once})
		first = dead.ask(t.Context(), options...)
		dead.crash()
		second = start(t, l, onceward.Config{Journal: j, Providers: after, Backoff: once}).ask(t.Context(), options...)
		assert.Len(t, l.sent(), 1)
		return first, second
	}
	order := to(http.MethodPost, ownURL)
	each(t, "an API under another name, or as one of any host's", func(t *testing.T, j journal.Journal) {
		renamed := own()
		renamed.Name = "ledger"
		first, second := sendsOnce(t, j, []providers.Provider{own()}, []providers.Provider{renamed}, order)
		require.Error(t, first.err)
		assert.Equal(t, first.op.Ref, second.op.Ref)
		assert.NotErrorIs(t, second.err, onceward.ErrNotSent)
	})
	each(t, "a host that is listed by now", func(t *testing.T, j journal.Journal) {
		first, second := sendsOnce(t, j, []providers.Provider{providers.Raw(time.Hour)}, []providers.Provider{own()}, order)
		require.Error(t, first.err)
		assert.Equal(t, first.op.Ref, second.op.Ref)
	})
	each(t, "a header that the table knows for an account's by now", func(t *testing.T, j journal.Journal) {
		now := own()
		now.AccountHeaders = []string{"X-Account"}
		_, second := sendsOnce(t, j, []providers.Provider{own()}, []providers.Provider{now}, order, with("X-Account", "acc_1"))
		require.ErrorIs(t, second.err, onceward.ErrKeyReused)
	})
	each(t, "a label that the program gives by now", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.ask(t.Context(), carrying("order-1")).err, onceward.ErrPending)
		labelled := onceward.WithAccount(t.Context(), "seller-1")
		require.ErrorIs(t, p.ask(labelled, carrying("order-1")).err, onceward.ErrKeyReused)
		require.NoError(t, p.ask(labelled, carrying("order-2")).err)
		require.NoError(t, p.ask(t.Context(), carrying("order-2")).err, "the label came first")
		require.NoError(t, p.ask(labelled, carrying("order-2")).err, "and has its answer")
		assert.Len(t, l.sent(), 3)
	})
	each(t, "another account's, without one and with one, are two", func(t *testing.T, j journal.Journal) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		require.NoError(t, p.ask(t.Context(), carrying("order-1")).err, "the platform's own")
		require.NoError(t, p.ask(t.Context(), carrying("order-1"), with("Stripe-Account", "acct_1")).err)
		assert.Len(t, l.sent(), 2)
	})
}

func TestACancelledNameIsNotTakenByItsKey(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(wrongKey)
		p := start(t, l, onceward.Config{Journal: j})
		p.ask(named(t, "invoice-1"), carrying("k-1"))
		require.Equal(t, onceward.Cancelled, p.recorded(onceward.Ref{ID: "invoice-1"}).State)
		require.ErrorIs(t, p.ask(t.Context(), carrying("k-1"), otherCharge).err, onceward.ErrKeyReused)
		assert.Equal(t, chargeForm, string(p.recorded(onceward.Ref{ID: "invoice-1"}).Request.Body))
		require.NoError(t, p.ask(t.Context(), carrying("k-1")).err, "the same request is that operation")
		assert.Equal(t, onceward.Completed, p.recorded(onceward.Ref{ID: "invoice-1"}).State)
		assert.Equal(t, []string{"k-1", "k-1"}, l.keys())
	})
}

func TestAKeyThatWasMadeForAnotherOperationIsTakenByNoName(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(remembers(providers.Nothing), func(e *providers.Endpoint) { e.Retention = 0 })}, Backoff: once})
		lost := p.ask(t.Context(), to(http.MethodPost, ownURL))
		require.ErrorIs(t, lost.err, onceward.ErrOutcomeUnknown)
		out := p.ask(named(t, invoice), to(http.MethodPost, ownURL), carrying(string(lost.op.Key)))
		require.ErrorIs(t, out.err, onceward.ErrKeyReused, "it may have taken effect")
		assert.Len(t, l.sent(), 1)

		_, err := p.resolve(lost.op.Ref, onceward.NotExecuted, nil)
		require.NoError(t, err)
		require.NoError(t, p.ask(named(t, invoice), to(http.MethodPost, ownURL), carrying(string(lost.op.Key))).err)
		assert.Len(t, l.sent(), 2)
	})
}

func TestWhoIsCancelledIsNotToldThatNothingTookEffectUnderAKeyFromBeforeItsLabel(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		require.Error(t, p.ask(t.Context(), to("POST", ownURL), carrying("k-1")).err)
		ctx, cancel := context.WithCancel(onceward.WithAccount(t.Context(), "seller-1"))
		cancel()
		err := p.ask(ctx, to("POST", ownURL), carrying("k-1")).err
		assert.NotErrorIs(t, err, onceward.ErrNotSent)
		assert.ErrorIs(t, err, onceward.ErrKeyReused)
		assert.ErrorIs(t, err, context.Canceled)
	})
}
