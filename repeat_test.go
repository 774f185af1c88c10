package onceward_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// unique has the bank take two transfers with one reference for one, for a day; the second is refused.
func unique(p *providers.Provider) {
	e := &p.Endpoints[1]
	e.Unique = providers.Unique{For: 24 * time.Hour, Concurrent: true, Source: "made up", Refused: providers.Rule{
		Status: http.StatusConflict, Field: "error", Equals: "duplicate", Pointer: "transfer", Verdict: providers.AlreadyDone, Source: "made up",
	}}
}

// merging answers the second as the first.
func merging(p *providers.Provider) {
	unique(p)
	p.Endpoints[1].Unique.Refused = providers.Rule{}
}

func (l *teller) transfers(name string, options ...option) outcome {
	l.T.Helper()
	return l.asks(name, "/transfers", `{"amount":10}`, options...)
}

// sent are how many transfers have reached the bank, executed or not.
func (l *teller) sent() int { return strings.Count(l.box.Ledger(), "POST /transfers") }

// leftUnknown asks for a transfer that is lost, and that its call can't look for, and so does not repeat.
func (l *teller) leftUnknown(name string, lost providertest.Fault, options ...option) {
	l.T.Helper()
	l.box.EveryLook(providertest.Status(http.StatusServiceUnavailable, nil))
	l.box.Script(lost)
	require.ErrorIs(l.T, l.transfers(name, options...).Err, onceward.ErrOutcomeUnknown)
	l.box.EveryLook(providertest.None())
}

// asksLater asks for a transfer when it is time that who asks has it looked for again.
func (l *teller) asksLater(name string, options ...option) outcome {
	l.T.Helper()
	<-time.After(2 * time.Minute)
	return l.transfers(name, options...)
}

// showing holds an answer against the object that it shows.
func showing(t *testing.T, out outcome, object string) {
	t.Helper()
	if assert.NoError(t, out.Err) {
		assert.Equal(t, http.StatusOK, out.Status)
		assert.Contains(t, out.Body, object)
	}
}

func bySource(op onceward.Operation, source string) (some []onceward.Evidence) {
	for _, e := range op.Evidence {
		if e.Source == source {
			some = append(some, e)
		}
	}
	return some
}

// The caller's own call repeats what became unknown, once a look has found nothing of it.
func TestRepeatByItsOwnCall(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Script(providertest.DropBefore())
		out := l.transfers("never-arrived")
		showing(t, out, "obj_1")
		assert.Equal(t, 2, l.sent())
		assert.Equal(t, 1, l.effects())
		op := l.stands("never-arrived")
		assert.Len(t, bySource(op, journal.SourceRepeat), 1)
		l.truly()
	})
}

// It has all of the call's time for that: there is no further repeat in it, for which it would be broken off.
func TestRepeatTakesItsTime(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling(), AttemptTimeout: 20 * time.Second, MaxWait: 5 * time.Minute}, unique)
		l.box.Script(providertest.DropBefore(), providertest.DelayBefore(time.Minute))
		showing(t, l.transfers("slow"), "obj_1")
		assert.Equal(t, 2, l.sent())
		l.truly()
	})
}

// It does not while the provider has asked for patience.
func TestRepeatKeepsARetryAfter(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Script(providertest.Status(http.StatusServiceUnavailable, http.Header{"Retry-After": {"600"}}))
		out := l.transfers("asked-for-patience")
		assert.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, 1, l.sent())
		assert.Equal(t, 2, l.box.Requests(), "whose the credential is, and the transfer: nor is it looked for")
	})
}

// Nor does anybody else, before the time that the provider named: neither to a first caller nor to one who had it repeated.
func TestRepeatByAnotherKeepsARetryAfter(t *testing.T) {
	patience := providertest.Status(http.StatusServiceUnavailable, http.Header{"Retry-After": {"600"}})
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Script(patience, patience)
		for sent := 1; sent <= 2; sent++ {
			out := l.transfers("asked-for-patience")
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			named := time.Now().Add(10 * time.Minute)
			for time.Until(named) > 2*time.Minute {
				assert.ErrorIs(t, l.asksLater("asked-for-patience").Err, onceward.ErrOutcomeUnknown)
				require.Equal(t, sent, l.sent())
			}
			pass(time.Until(named))
		}
		showing(t, l.transfers("asked-for-patience"), "obj_1")
		assert.Equal(t, 1, l.effects())
		l.truly()
	})
}

// Nor does it at once while the provider is busy with the first, whatever that names: who asks later has it looked for.
func TestRepeatLeavesABusyProviderAlone(t *testing.T) {
	for name, header := range map[string]http.Header{"it names no time": nil, "it names none that is to come": {"Retry-After": {"0"}}} {
		trap(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Reconcile: filling()}, unique, func(p *providers.Provider) {
				p.Endpoints[1].Rules = append([]providers.Rule{{Status: http.StatusLocked, Verdict: providers.InFlight, Source: "made up"}}, p.Endpoints[1].Rules...)
			})
			l.box.Script(providertest.Status(http.StatusLocked, header))
			assert.ErrorIs(t, l.transfers("busy").Err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, 1, l.sent())
			showing(t, l.asksLater("busy"), "obj_1")
			assert.Equal(t, 1, l.effects())
		})
	}
}

// What took effect, and is not visible yet, is refused by the provider: the object that it names is
// the operation's.
func TestRepeatIsRefusedAsTheFirst(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Visible(time.Hour)
		l.box.Script(providertest.DropAfter())
		out := l.transfers("hidden")
		require.ErrorIs(t, out.Err, onceward.ErrAnswerGone)
		op := l.stands("hidden")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "obj_1", op.Answer.Pointer)
		assert.True(t, op.Answer.Omitted && op.Answer.Found)
		seen := bySource(op, journal.SourceRepeat)
		require.Len(t, seen, 1)
		assert.Equal(t, "transfer obj_1", seen[0].Object)
		assert.Equal(t, http.StatusConflict, seen[0].Status)
		assert.Equal(t, "POST "+l.box.URL+"/transfers", seen[0].Target)
		assert.Equal(t, journal.FindingTookEffect, seen[0].Finding)
		assert.Equal(t, 1, l.effects())
		l.truly()
	})
}

// Where the second is answered as the first, its answer is the operation's.
func TestRepeatIsMergedWithTheFirst(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, merging)
		l.box.Visible(time.Hour)
		l.box.Script(providertest.DropAfter())
		showing(t, l.transfers("hidden"), "obj_1")
		assert.Equal(t, 2, l.sent())
		assert.Equal(t, 1, l.effects())
		l.truly()
	})
}

// Reading comes first: what a look finds is not sent again.
func TestRepeatComesAfterALook(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Script(providertest.DropAfter())
		showing(t, l.transfers("there"), "obj_1")
		assert.Equal(t, 1, l.sent())

		for _, fault := range []providertest.Fault{providertest.Status(http.StatusServiceUnavailable, nil), providertest.Status(http.StatusForbidden, nil), providertest.NoList()} {
			l.box.ScriptLooks(fault, fault)
			l.box.Script(providertest.DropBefore())
			before := l.sent()
			out := l.transfers("unread " + fault.String())
			assert.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, before+1, l.sent(), "%v: what could not be read is not repeated", fault)
		}
	})
}

// A table that has neither look-ups nor events has references filled in all the same, and repeats.
func TestRepeatWithNothingToRead(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{}}, merging, func(p *providers.Provider) {
			p.Endpoints[1].Reference.Fill, p.Endpoints[1].Lookups, p.Events = true, nil, nil
		})
		l.box.Script(providertest.DropAfter())
		showing(t, l.transfers("merged"), "obj_1")
		assert.Equal(t, 2, l.sent())
		assert.Equal(t, 1, l.effects())
		l.truly()
	})
}

// A clock that was set ahead does not make the handling time shorter, nor does another process's that is ahead.
func TestRepeatByClocksThatDiffer(t *testing.T) {
	const handling, ahead = 5 * time.Minute, 10 * time.Minute
	slow := func(p *providers.Provider) {
		p.Endpoints[1].Unique.Concurrent, p.Endpoints[1].HandlingTime = false, handling
	}
	for _, row := range []struct {
		name    string
		another bool // process asks for it
	}{{"its own, set ahead", false}, {"another process's", true}} {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Reconcile: filling()}, merging, slow)
			var set atomic.Bool
			clock := func() time.Time {
				if set.Load() {
					return time.Now().Add(ahead)
				}
				return time.Now()
			}
			onceward.SetClock(l.Client, clock)
			l.box.Script(providertest.DropBefore())
			require.ErrorIs(t, l.transfers("slow").Err, onceward.ErrOutcomeUnknown, "the first may still be worked on")
			ended := time.Now()
			set.Store(true)
			if row.another {
				l = another(t, l.box, onceward.Config{Reconcile: filling(), Journal: l.Journal.Journal})
				onceward.SetClock(l.Client, clock)
			}
			for l.asksLater("slow").Err != nil {
				require.Equal(t, 1, l.sent())
				require.Less(t, time.Since(ended), 3*handling)
			}
			assert.Equal(t, 2, l.sent())
			assert.GreaterOrEqual(t, time.Since(ended), handling)
			assert.EqualValues(t, 2, l.stands("slow").Claim, "what is too early is no claim")
		})
	}
	trap(t, "another process's, which has looked for it for so long", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, merging, slow)
		l.box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.transfers("slow").Err, onceward.ErrOutcomeUnknown)
		other := another(t, l.box, onceward.Config{Reconcile: filling(), Journal: l.Journal.Journal})
		other.runs(20 * time.Minute)
		showing(t, other.asksLater("slow"), "obj_1")
	})
}

// A clock that is behind by less than the margin has no say: what was sent by one that is right is repeated.
func TestRepeatByAClockBehind(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		j := onDisk(t)
		l := atBank(t, onceward.Config{Reconcile: filling(), Journal: j}, unique)
		l.leftUnknown("doubted", providertest.DropBefore())
		other := another(t, l.box, onceward.Config{Reconcile: filling(), Journal: j})
		onceward.SetClock(other.Client, func() time.Time { return time.Now().Add(-10 * time.Minute) })
		showing(t, other.asksLater("doubted"), "obj_1")
		assert.Equal(t, 2, l.sent())
		l.truly()
	})
}

// Nothing is repeated in the background, nor by a look on demand: who asks by the name has it
// repeated.
func TestRepeatIsAskedForByName(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique, func(p *providers.Provider) {
			p.Endpoints[1].Unique.Concurrent = false
			p.Endpoints[1].HandlingTime = 5 * time.Minute
		})
		l.box.Script(providertest.DropBefore())
		out := l.transfers("slow")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown, "the first may still be worked on")
		require.Equal(t, 1, l.sent())

		l.runs(time.Hour)
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "slow"})
		require.Error(t, err)
		report, err := l.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Claimed)
		assert.Equal(t, 1, l.sent(), "nobody has asked for it")

		showing(t, l.asksLater("slow"), "obj_1")
		assert.Equal(t, 2, l.sent())
		l.truly()
	})
}

// The caller's own reference may be another request's too.
func TestRepeatNeverUnderACallersReference(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Script(providertest.DropBefore())
		theirs := body(`{"amount":10,"external_id":"order-1"}`)
		require.ErrorIs(t, l.transfers("theirs", theirs).Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.asksLater("theirs", theirs).Err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, 1, l.sent())
	})
}

// Past the time for which the provider takes two for one, less a margin, nothing is repeated.
func TestRepeatWithinItsWindow(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		for _, at := range []struct {
			name  string
			after time.Duration
			sent  int
		}{{"inside", 22 * time.Hour, 2}, {"in the margin", 23*time.Hour + time.Minute, 1}} {
			l.box.ScriptLooks(providertest.Status(http.StatusServiceUnavailable, nil), providertest.Status(http.StatusServiceUnavailable, nil))
			l.box.Script(providertest.DropBefore())
			before := l.sent()
			require.ErrorIs(t, l.transfers(at.name).Err, onceward.ErrOutcomeUnknown)
			pass(at.after)
			l.transfers(at.name)
			assert.Equal(t, before+at.sent, l.sent(), at.name)
		}
	})
}

// In another account it would be another's.
func TestRepeatInItsAccountAlone(t *testing.T) {
	for name, identity := range map[string]bool{"the provider tells whose a credential is": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			trap(t, "", func(t *testing.T) {
				l := atBank(t, onceward.Config{Reconcile: filling()}, unique, func(p *providers.Provider) {
					if !identity {
						p.Identity = providers.Identity{}
					}
				})
				l.leftUnknown("ours", providertest.DropBefore())
				l.asksLater("ours", with("Authorization", "Bearer another"))
				assert.Zero(t, l.effects())
				showing(t, l.asksLater("ours"), "obj_1")
				l.truly()
			})
		})
	}
}

// A credential that Authorize changes between two of its calls has nothing be sent, or taken for read, in another
// account than the operation's.
func TestRepeatAsAuthorizeChanges(t *testing.T) {
	t.Parallel()
	const another = "Bearer another"
	type change struct {
		looks bool // of a look's requests, the one that asks whose it is included; else of an attempt
		from  int  // which of them has another first, from 0
		all   bool // and every other request from then on
	}
	var now change
	calls, switched := map[bool]int{}, false
	authorize := func(r *http.Request) error {
		_, looks := onceward.LookOf(r.Context())
		token := tellerToken
		is := looks == now.looks && calls[looks] >= now.from
		switched = switched || is && now.all
		if is || switched {
			token = another
		}
		calls[looks]++
		r.Header.Set("Authorization", token)
		return nil
	}
	changes := func(c change) { now, calls, switched = c, map[bool]int{}, false }
	const never = 1000
	for _, row := range []struct {
		name string
		at   change
		why  string // of the evidence
	}{
		{"after the look, for one request", change{from: 1}, ""},
		{"after the look", change{from: 1, all: true}, ""},
		{"while it looks", change{looks: true, from: 1}, "another credential"},
	} {
		for _, named := range []bool{false, true} { // the account was known when it was begun
			trap(t, fmt.Sprintf("%s, account known: %v", row.name, named), func(t *testing.T) {
				l := atBank(t, onceward.Config{Reconcile: filling(), Authorize: authorize}, unique)
				changes(change{from: never})
				if named {
					showing(t, l.transfers("before"), "obj_1")
				}
				before := l.sent()
				l.leftUnknown("ours", providertest.DropBefore())
				recorded, err := l.Journal.Get(t.Context(), onceward.Ref{ID: "ours"})
				require.NoError(t, err)
				require.Equal(t, named, recorded.Account != journal.OwnCredential)
				changes(row.at)
				require.ErrorIs(t, l.asksLater("ours").Err, onceward.ErrOutcomeUnknown)
				require.Equal(t, before+1, l.sent())
				assert.Contains(t, latest(l.stands("ours")).Why, row.why)
				changes(change{from: never})
				showing(t, l.asksLater("ours"), fmt.Sprint("obj_", before+1))
				l.truly()
			})
		}
	}
	trap(t, "for the look alone, and nothing tells whose it is", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling(), Authorize: authorize}, unique, func(p *providers.Provider) { p.Identity = providers.Identity{} })
		changes(change{from: never})
		l.leftUnknown("ours", providertest.DropAfter())
		changes(change{looks: true})
		require.ErrorIs(t, l.asksLater("ours").Err, onceward.ErrOutcomeUnknown)
		require.Equal(t, 1, l.sent(), "in another account there is nothing of it either")
		changes(change{from: never})
		showing(t, l.asksLater("ours"), "obj_1")
		require.Equal(t, 1, l.sent())
		l.truly()
	})
	trap(t, "as the object is got that is listed", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling(), Authorize: authorize}, unique, func(p *providers.Provider) {
			p.Endpoints[1].Lookups[0].Fetch = "/transfers/{id}"
		})
		changes(change{from: never})
		showing(t, l.transfers("before"), "obj_1")
		l.leftUnknown("ours", providertest.DropAfter())
		changes(change{looks: true, from: 2}) // whose it is, the list, the object
		require.ErrorIs(t, l.asksLater("ours").Err, onceward.ErrOutcomeUnknown)
		require.Contains(t, latest(l.stands("ours")).Why, "another credential")
		changes(change{from: never})
		showing(t, l.asksLater("ours"), "obj_2")
		l.truly()
	})
	trap(t, "before it is sent first", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling(), Authorize: authorize}, unique)
		changes(change{from: 1, all: true})
		out := l.transfers("ours")
		require.ErrorContains(t, out.Err, "another account")
		assert.Zero(t, l.sent())
		changes(change{from: never})
		showing(t, l.transfers("ours"), "obj_1")
	})
	trap(t, "as it is asked whose it is", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling(), Authorize: authorize}, unique)
		changes(change{looks: true})
		showing(t, l.transfers("ours"), "obj_1")
		recorded, err := l.Journal.Get(t.Context(), onceward.Ref{ID: "ours"})
		require.NoError(t, err)
		assert.Equal(t, journal.OwnCredential, recorded.Account, "the other's is not taken for its own")
	})
	trap(t, "and it can't be told whose the new one is", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling(), Authorize: authorize}, unique)
		changes(change{from: never})
		l.leftUnknown("ours", providertest.DropBefore())
		l.fakes(func(r *http.Request) *http.Response {
			if r.URL.Path == "/me" {
				return answers(http.StatusServiceUnavailable, `{}`)
			}
			return nil
		})
		changes(change{from: 1, all: true})
		require.ErrorIs(t, l.asksLater("ours").Err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, 1, l.sent())
	})
}

// However a client is set up, a repeat is one operation: sent twice, executed once, and told of once to who wants to
// hear of all.
func TestRepeatIsSettledOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		set     func(*onceward.Config)
		settled int
	}{
		{"its caller has it", func(*onceward.Config) {}, 0},
		{"NamedOnly", func(c *onceward.Config) { c.NamedOnly = true }, 0},
		{"Strict", func(c *onceward.Config) { c.Strict = true }, 0},
		{"SettleAll", func(c *onceward.Config) { c.SettleAll = true }, 1},
	} {
		trap(t, row.name, func(t *testing.T) {
			var settled []onceward.State
			cfg := onceward.Config{Reconcile: filling(), OnSettled: func(_ context.Context, op onceward.Operation) error {
				settled = append(settled, op.State)
				return nil
			}}
			row.set(&cfg)
			l := atBank(t, cfg, unique)
			l.box.Script(providertest.DropBefore())
			showing(t, l.transfers("wanted"), "obj_1")
			l.runs(time.Hour)
			assert.Equal(t, 2, l.sent())
			assert.Equal(t, 1, l.effects())
			require.Len(t, settled, row.settled)
			for _, state := range settled {
				assert.Equal(t, onceward.StateCompleted, state)
			}
			recorded, err := l.Journal.Get(t.Context(), onceward.Ref{ID: "wanted"})
			require.NoError(t, err)
			assert.True(t, recorded.Delivered)
			l.truly()
		})
	}
}

// A key that the caller brings along goes out with each, and so does the one reference.
func TestRepeatUnderACarriedKey(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique, func(p *providers.Provider) {
			p.Endpoints[1].Key = providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}
		})
		var sent []string
		l.fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost {
				text, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(text))
				sent = append(sent, r.Header.Get("Idempotency-Key")+" "+string(text))
			}
			return nil
		})
		l.box.Script(providertest.DropBefore())
		out := l.Ask(t.Context(), to(http.MethodPost, l.box.URL+"/transfers"), body(`{"amount":10}`), with("Content-Type", "application/json"), carrying("sdk-1"))
		showing(t, out, "obj_1")
		require.Len(t, sent, 2)
		assert.Equal(t, sent[0], sent[1])
		assert.True(t, strings.HasPrefix(sent[0], "sdk-1 "))
		assert.Equal(t, 1, l.effects())
		l.truly()
	})
}

// Of many who ask at once, one repeats.
func TestRepeatByManyAskers(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.leftUnknown("wanted", providertest.DropBefore())
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { showing(t, l.asksLater("wanted"), "obj_1") })
		}
		wg.Wait()
		assert.Equal(t, 2, l.sent())
		assert.Equal(t, 1, l.effects())
	})
}

// A repeat that is lost leaves the operation unknown, for the next look.
func TestRepeatThatIsLostIsUnknown(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Script(providertest.DropBefore(), providertest.DropAfter())
		require.ErrorIs(t, l.transfers("lost twice").Err, onceward.ErrOutcomeUnknown)
		op := l.stands("lost twice")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.EqualValues(t, 2, op.Claim)
		assert.Equal(t, 2, l.sent())
		l.runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.stands("lost twice").State)
		assert.Equal(t, 1, l.effects())
		l.truly()
	})
}

// A refusal that names nothing counts once what is there is shown.
func TestRepeatRefusedWithoutAName(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique, func(p *providers.Provider) { p.Endpoints[1].Unique.Refused.Pointer = "" })
		l.box.Visible(time.Minute)
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.transfers("unnamed").Err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, 2, l.sent())
		showing(t, l.asksLater("unnamed"), "obj_1")
		assert.Equal(t, 2, l.sent())
		l.truly()
	})
}

// What a look shows counts for that if it took effect, and can be handed over.
func TestRepeatRefusedAndNothingShown(t *testing.T) {
	for name, refused := range map[string]bool{"there is one that was refused": true, "the program's own look-up gives no answer": false} {
		trap(t, name, func(t *testing.T) {
			var l *teller
			looks := filling()
			looks.Lookup = func(context.Context, onceward.Operation) (f onceward.Finding, err error) {
				if !refused && l.sent() == 2 {
					f = onceward.Finding{Found: journal.FindingTookEffect, Object: "transfer obj_1"}
				}
				return f, nil
			}
			l = atBank(t, onceward.Config{Reconcile: looks}, unique, func(p *providers.Provider) { p.Endpoints[1].Unique.Refused.Pointer = "" })
			l.box.Visible(time.Hour)
			l.box.Script(providertest.DropAfter())
			var sent []byte
			l.fakes(func(r *http.Request) *http.Response {
				switch {
				case r.Method == http.MethodPost:
					sent, _ = io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(sent))
				case refused && r.URL.Path == "/transfers" && l.sent() == 2:
					return answers(http.StatusOK, fmt.Sprintf(`{"data":[{"id":"obj_1","created":%d,"status":"failed",%s],"has_more":false}`, time.Now().Unix(), sent[1:]))
				}
				return nil
			})
			require.ErrorIs(t, l.transfers("unnamed").Err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, 2, l.sent())
			op := l.stands("unnamed")
			assert.Equal(t, onceward.StateUnknown, op.State)
			assert.Contains(t, op.Cause, "not shown yet")
		})
	}
}

// A look at what is there that takes too long keeps nobody waiting until the end of the call.
func TestRepeatRefusedAndALookThatHangs(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique, func(p *providers.Provider) { p.Endpoints[1].Unique.Refused.Pointer = "" })
		l.box.Visible(time.Minute)
		l.box.Script(providertest.DropAfter())
		l.fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && l.sent() == 2 {
				<-r.Context().Done()
			}
			return nil
		})
		done := make(chan outcome, 1)
		go func() { done <- l.transfers("unnamed") }()
		pass(21 * time.Second)
		require.Equal(t, 2, l.sent())
		require.Len(t, done, 1, "nobody waits for the look")
		require.ErrorIs(t, (<-done).Err, onceward.ErrOutcomeUnknown)
	})
}

// Where nothing could show it, a refusal that names nothing is all that there is.
func TestRepeatRefusedAndNothingToRead(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique, func(p *providers.Provider) {
			p.Endpoints[1].Unique.Refused.Pointer, p.Endpoints[1].Lookups = "", nil
		})
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.transfers("unnamed").Err, onceward.ErrAnswerGone)
		assert.Equal(t, 2, l.sent())
		assert.Equal(t, onceward.StateCompleted, l.stands("unnamed").State)
		assert.Equal(t, 1, l.effects())
		l.truly()
	})
}

// A refusal that names another object than the look after it shows is not believed.
func TestRepeatRefusedWithAnothersName(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Visible(30 * time.Second)
		l.box.Script(providertest.DropAfter())
		l.fakes(func(r *http.Request) *http.Response {
			if r.Method != http.MethodPost || l.sent() == 0 {
				return nil
			}
			<-time.After(40 * time.Second) // by then the first can be seen
			return answers(http.StatusConflict, `{"error":"duplicate","transfer":"obj_another"}`)
		})
		require.ErrorIs(t, l.transfers("mine").Err, onceward.ErrOutcomeUnknown)
		assert.Contains(t, l.stands("mine").Cause, "names another than a look shows")
		l.runs(time.Minute)
		op := l.stands("mine")
		require.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "obj_1", op.Answer.Pointer)
		assert.Equal(t, 1, l.effects())
		l.truly()
	})
}

// What the answer to a repeat shows of another operation's object is no evidence of this one, and a person sees to it.
func TestRepeatThatShowsAnothersObject(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling(), Journal: onDisk(t)}, merging)
		l.leftUnknown("first", providertest.DropAfter())
		l.runs(time.Minute)
		require.Equal(t, "transfer obj_1", l.stands("first").Object)
		l.leftUnknown("second", providertest.DropBefore())
		l.fakes(answering(http.MethodPost, `{"id":"obj_1","status":"succeeded","amount":10}`))
		require.NoError(t, l.asksLater("second").Err)
		op := l.stands("second")
		assert.Contains(t, op.Dead, "proves another operation")
		assert.Empty(t, bySource(op, journal.SourceRepeat))
	})
}

// Whoever says of what a process was sending that has died that it is not wanted, and that it is after all, repeats it no
// sooner than its provider may be done, though nothing was sent of it for long before and its clock is set ahead then.
func TestRepeatOnceItIsWantedAgain(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		const handling = 5 * time.Minute
		ahead := time.Duration(0)
		j := onDisk(t)
		l := atBank(t, onceward.Config{Reconcile: filling(), Journal: j}, merging, func(p *providers.Provider) {
			p.Endpoints[1].Unique.Concurrent, p.Endpoints[1].HandlingTime = false, handling
		})
		l.leftUnknown("slow", providertest.DropBefore())
		other := another(t, l.box, onceward.Config{Reconcile: filling(), Journal: j})
		onceward.SetClock(other.Client, func() time.Time { return time.Now().Add(ahead) })
		pass(2 * time.Minute)
		_, err := other.Reconcile(t.Context(), onceward.Ref{ID: "slow"})
		require.Error(t, err)
		pass(2 * handling)
		l.box.Script(providertest.DelayBefore(time.Hour))
		go func() { l.transfers("slow") }()
		pass(time.Second)
		require.Equal(t, 2, l.sent())
		l.Crash()
		for _, says := range []func(context.Context, onceward.Ref, onceward.ResolveOptions) (onceward.Operation, error){other.Unwanted, other.Wanted} {
			_, err := says(t.Context(), onceward.Ref{ID: "slow"}, onceward.ResolveOptions{})
			require.NoError(t, err)
		}
		ahead = 2 * handling
		require.Error(t, other.asksLater("slow").Err)
		require.Equal(t, 2, l.sent(), "the bank may be working on it")
		pass(handling)
		showing(t, other.asksLater("slow"), "obj_1")
	})
}

// What a look finds while another process repeats it is kept beside that, without an answer that is long: who has repeated it
// is told that there is one.
func TestRepeatBesideALookThatFindsMuch(t *testing.T) {
	for _, row := range []struct {
		name  string
		long  int
		error error
	}{{"an answer", 1 << 10, nil}, {"a long one", journal.MaxEvidenceAnswer + 1, onceward.ErrAnswerGone}} {
		trap(t, row.name, func(t *testing.T) {
			j := memory.New() // a file's compresses what is long, on goroutines that virtual time does not know
			l := atBank(t, onceward.Config{Reconcile: filling(), Journal: j, AttemptTimeout: 10 * time.Minute}, unique)
			other := another(t, l.box, onceward.Config{Reconcile: filling(), Journal: j})
			l.leftUnknown("doubted", providertest.DropBefore())
			sent := l.Recorded(onceward.Ref{ID: "doubted"})
			l.fakes(func(r *http.Request) *http.Response {
				if r.URL.Path != "/transfers" {
					return nil
				}
				<-time.After(2 * time.Minute)
				return answers(http.StatusOK, fmt.Sprintf(`{"data":[{"id":"obj_1","created":%d,"status":"succeeded","amount":10,"external_id":%q,"note":%q}],"has_more":false}`,
					sent.FirstSentAt.Unix(), sent.Reference, strings.Repeat("x", row.long)))
			})
			other.fakes(func(r *http.Request) *http.Response {
				if r.Method == http.MethodPost {
					<-time.After(5 * time.Minute)
				}
				return nil
			})
			l.box.Script(providertest.DropBefore())
			done := make(chan outcome, 1)
			go func() {
				pass(90 * time.Second)
				done <- other.transfers("doubted")
			}()
			l.runs(5 * time.Minute)
			out := <-done
			if row.error != nil {
				require.ErrorIs(t, out.Err, row.error)
			} else {
				showing(t, out, "obj_1")
			}
			assert.Equal(t, onceward.StateCompleted, l.stands("doubted").State)
		})
	}
}

// What is unknown can't be put on hold: whoever tries is told what keeps it from being repeated.
func TestRepeatNotOfWhatIsNotWanted(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.leftUnknown("doubted", providertest.DropBefore())
		seen := l.stands("doubted").Seen
		_, err := l.Resolve(t.Context(), seen, onceward.Hold, onceward.ResolveOptions{})
		require.ErrorIs(t, err, onceward.ErrInvalidEvent)
		require.ErrorContains(t, err, "say that it is not wanted (Unwanted)")

		_, err = l.Unwanted(t.Context(), seen.Ref, onceward.ResolveOptions{})
		require.NoError(t, err)
		require.Error(t, l.asksLater("doubted").Err)
		require.Equal(t, 1, l.sent())
		_, err = l.Wanted(t.Context(), seen.Ref, onceward.ResolveOptions{})
		require.NoError(t, err)
		showing(t, l.asksLater("doubted"), "obj_1")
		assert.Equal(t, 1, l.effects())
	})
}

// listsOnce has the first look be answered by a list of what is made of the fields that were sent; looks counts all.
func (l *teller) listsOnce(looks *int, list func(sent string) string) {
	var sent []byte
	l.fakes(func(r *http.Request) *http.Response {
		switch {
		case r.Method == http.MethodPost:
			sent, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(sent))
		case r.URL.Path == "/transfers":
			if *looks++; *looks == 1 {
				return answers(http.StatusOK, `{"data":[`+list(string(sent[1:]))+`],"has_more":false}`)
			}
		}
		return nil
	})
}

// What was seen once is not repeated, though it could not be told what became of it, and a later look
// does not show it.
func TestRepeatNeverOfWhatWasSeen(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Script(providertest.DropAfter())
		l.box.Visible(time.Hour)
		looks := 0
		l.listsOnce(&looks, func(sent string) string {
			by := time.Now().Add(-48 * time.Hour).Unix() // the provider's clock
			return fmt.Sprintf(`{"id":"obj_1","created":%d,"status":"succeeded",%s`, by, sent)
		})
		require.ErrorIs(t, l.transfers("seen").Err, onceward.ErrOutcomeUnknown)
		require.Equal(t, 1, looks)
		require.ErrorIs(t, l.asksLater("seen").Err, onceward.ErrOutcomeUnknown)
		require.Equal(t, 2, looks)
		require.Equal(t, 1, l.sent())
		op := l.stands("seen")
		require.Len(t, op.Evidence, 2)
		assert.Equal(t, "transfer obj_1", op.Evidence[0].Object, "for a person to look at")
	})
}

// What two objects may be is not repeated, though a later look shows neither.
func TestRepeatNeverOfWhatTwoMayBe(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Script(providertest.DropBefore())
		looks := 0
		l.listsOnce(&looks, func(sent string) string {
			one := fmt.Sprintf(`"created":%d,"status":"succeeded",%s`, time.Now().Unix(), sent)
			return `{"id":"obj_1",` + one + `,{"id":"obj_2",` + one
		})
		require.ErrorIs(t, l.transfers("seen").Err, onceward.ErrOutcomeUnknown)
		require.Equal(t, 1, looks)
		require.ErrorIs(t, l.asksLater("seen").Err, onceward.ErrOutcomeUnknown)
		require.Greater(t, looks, 1)
		assert.Equal(t, 1, l.sent())
		assert.Equal(t, journal.FindingAmbiguous, l.stands("seen").Evidence[0].Finding)
	})
}

// What is listed is there, and is not repeated, though the next page, or the object itself, is not found.
func TestRepeatNeverOfWhatIsListed(t *testing.T) {
	for _, row := range []struct{ name, fetch, more string }{
		{"the object can't be got", "/transfers/{id}", ""},
		{"the next page can't be read", "", `"has_more":true,"next":"2"`},
	} {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Reconcile: filling()}, unique, func(p *providers.Provider) { p.Endpoints[1].Lookups[0].Fetch = row.fetch })
			l.box.Script(providertest.DropAfter())
			misses, hides := 0, true
			var sent []byte
			l.fakes(func(r *http.Request) *http.Response {
				switch {
				case r.Method == http.MethodPost:
					sent, _ = io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(sent))
				case !hides || !strings.HasPrefix(r.URL.Path, "/transfers"):
				case r.URL.Path != "/transfers", r.URL.Query().Get("cursor") != "":
					misses++
					return answers(http.StatusNotFound, "{}")
				case row.more != "":
					return answers(http.StatusOK, fmt.Sprintf(`{"data":[{"id":"obj_1","created":%d,"status":"of a new kind",%s],%s}`,
						time.Now().Unix(), strings.TrimSuffix(string(sent[1:]), "}")+"}", row.more))
				}
				return nil
			})
			require.ErrorIs(t, l.transfers("listed").Err, onceward.ErrOutcomeUnknown)
			require.ErrorIs(t, l.asksLater("listed").Err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, 2, misses)
			assert.Equal(t, 1, l.sent())
			hides = false
			showing(t, l.asksLater("listed"), "obj_1")
			l.truly()
		})
	}
}

// What a flow waits for is not repeated: its steps ask by themselves, and nobody has asked them to.
func TestRepeatNeverInAFlow(t *testing.T) {
	t.Parallel()
	trap(t, "", func(t *testing.T) {
		l := tellerOfFlows(t, openBank(t, unique, func(p *providers.Provider) { p.Endpoints[1].Reference.Fill = true }))
		ship := flow.Define("ship", 1, func(ctx context.Context, _ string) (string, error) {
			return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", l.posts(ctx, "/transfers", `{"amount":10}`) })
		})
		require.NoError(t, l.Flows.Register(ship))
		l.box.Script(providertest.DropBefore())
		_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		require.True(t, l.Recorded(l.charge().Ref).ReferenceOurs)
		assert.Equal(t, 1, l.sent())
		assert.Equal(t, 2, l.box.Requests(), "whose the credential is, and the transfer: it is Run's to look for")
		l.runs(12 * time.Hour)
		assert.Equal(t, 1, l.sent())
		assert.Equal(t, flow.StateWaiting, l.order().State)
	})
}

// What a later table says of a field that is the caller's own proves nothing of what was sent with ours
// in another.
func TestRepeatRefusedForAnotherField(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		remembering := func(p *providers.Provider) {
			p.Endpoints[1].Key = providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}
			p.Endpoints[1].Remembers, p.Endpoints[1].Retention, p.Endpoints[1].InFlightGuard = providers.Everything, 24*time.Hour, true
		}
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique, remembering)
		first := anotherAs(t, l.box, onceward.Config{Journal: l.Journal.Journal, Reconcile: filling()}, func(p *providers.Provider) {
			p.Endpoints[1].Reference.Name, p.Endpoints[1].Unique, p.Endpoints[1].Lookups = "memo", providers.Unique{}, nil
		})
		theirs := body(`{"amount":10,"external_id":"order-1"}`)
		l.box.Script(providertest.Status(http.StatusServiceUnavailable, nil))
		require.ErrorIs(t, first.asks("mine", "/transfers", "", theirs).Err, onceward.ErrPending)
		recorded, err := l.Journal.Get(t.Context(), onceward.Ref{ID: "mine"})
		require.NoError(t, err)
		require.True(t, recorded.ReferenceOurs)
		l.fakes(func(r *http.Request) *http.Response {
			if r.Method != http.MethodPost {
				return nil
			}
			return answers(http.StatusConflict, `{"error":"duplicate","transfer":"obj_another"}`)
		})
		pass(time.Minute)
		require.ErrorIs(t, l.asks("mine", "/transfers", "", theirs).Err, onceward.ErrOutcomeUnknown)
	})
}

// The provider's promise holds for requests that ask for it.
func TestRepeatWhereTheRequestSaysSo(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, merging, func(p *providers.Provider) {
			p.Endpoints[1].Unique.Field, p.Endpoints[1].Unique.Equals = "unique_receipt", "true"
		})
		l.box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.transfers("plain").Err, onceward.ErrOutcomeUnknown)
		require.Equal(t, 1, l.sent())
		l.box.Script(providertest.DropBefore())
		showing(t, l.asks("says so", "/transfers", `{"amount":12,"unique_receipt":true}`), "obj_1")
		assert.Equal(t, 3, l.sent())
	})
}

// An unnamed call, which nobody can ask for again, repeats as well as long as it runs.
func TestRepeatOfAnUnnamedCall(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.box.Script(providertest.DropBefore())
		out := l.Ask(t.Context(), to(http.MethodPost, l.box.URL+"/transfers"), body(`{"amount":10}`), with("Content-Type", "application/json"))
		showing(t, out, "obj_1")
		assert.Equal(t, 2, l.sent())
		assert.EqualValues(t, 2, out.Op.Claim, "it is looked for, and claimed anew")
		synctest.Wait()
	})
}

// A process without Config.Reconcile beside it sends nothing of it, and takes nothing from it.
func TestRepeatBesideAPlainClient(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.leftUnknown("shared", providertest.DropBefore())
		plain := oncetest.Start(t, l.via, onceward.Config{Journal: l.Journal.Journal, Providers: []providers.Provider{l.box.Provider()}, Backoff: once})
		out := plain.Ask(named(t, "shared"), to(http.MethodPost, l.box.URL+"/transfers"), body(`{"amount":10}`), with("Content-Type", "application/json"),
			with("Authorization", tellerToken))
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		_, err := plain.Resume(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, l.sent())
		showing(t, l.asksLater("shared"), "obj_1")
		l.truly()
	})
}

// What was in doubt is not repeated by a table that promises less by now.
func TestRepeatByALaterTable(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique)
		l.leftUnknown("shared", providertest.DropBefore())
		later := anotherAs(t, l.box, onceward.Config{Journal: l.Journal.Journal, Reconcile: filling()}, func(p *providers.Provider) {
			p.Endpoints[1].Unique = providers.Unique{}
		})
		require.ErrorIs(t, later.asksLater("shared").Err, onceward.ErrOutcomeUnknown)
		require.Equal(t, 1, l.sent())
		showing(t, l.asksLater("shared"), "obj_1")
	})
}

// A body that is a secret, and not kept, is repeated as who asks brings it, with the same reference.
func TestRepeatOfASecretBody(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, unique, func(p *providers.Provider) { p.Endpoints[1].SecretRequest = []string{"card.number"} })
		card := body(`{"amount":10,"card":{"number":"4242424242424242"}}`)
		l.leftUnknown("card", providertest.DropBefore(), card)
		recorded, err := l.Journal.Get(t.Context(), onceward.Ref{ID: "card"})
		require.NoError(t, err)
		reference := recorded.Reference
		require.NotEmpty(t, reference)
		require.NoError(t, l.asksLater("card", card).Err)
		require.Equal(t, 1, l.effects())
		assert.Contains(t, string(l.box.Effects()[0].Body), reference)
		assert.NotContains(t, fmt.Sprintf("%+v", l.stands("card")), "4242")
		assert.NotContains(t, l.log.String(), "4242")
	})
}

// Shipped tables repeat once a program states what their providers don't publish: in the box, each as
// its table says.
func TestRepeatByShippedTables(t *testing.T) {
	for _, tc := range []struct {
		name, path, text, pattern string
		table                     providers.Provider
		object                    string
		hidden                    bool // the first took effect, and is not shown yet
	}{
		{"Svix", "/api/v1/app/app_1/msg", `{"eventType":"paid","payload":{}}`, "POST /api/v1/app/{app}/msg", providers.Svix(), "obj_1", false},
		{"Razorpay", "/v1/orders", `{"amount":100,"currency":"INR","unique_receipt":true}`, "POST /v1/orders", providers.Razorpay(0), "obj_1", false},
		{"Razorpay, executed and not shown", "/v1/orders", `{"amount":100,"currency":"INR","unique_receipt":true}`, "POST /v1/orders", providers.Razorpay(0), "obj_1", true},
	} {
		trap(t, tc.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Reconcile: filling()}, func(p *providers.Provider) {
				*p = tc.table
				for i := range p.Endpoints {
					if e := &p.Endpoints[i]; e.Pattern == tc.pattern {
						e.HandlingTime, e.Reference.Visible = time.Minute, false
					}
				}
			})
			fault := providertest.DropBefore()
			if tc.hidden {
				l.box.Visible(time.Hour)
				fault = providertest.DropAfter()
			}
			l.box.Script(fault)
			require.ErrorIs(t, l.asks("order-1", tc.path, tc.text).Err, onceward.ErrOutcomeUnknown)
			pass(30 * time.Second)
			require.ErrorIs(t, l.asks("order-1", tc.path, tc.text).Err, onceward.ErrOutcomeUnknown, "the first may still be worked on")
			pass(2 * time.Minute)
			showing(t, l.asks("order-1", tc.path, tc.text), tc.object)
			assert.Equal(t, 2, strings.Count(l.box.Ledger(), "POST "+tc.path))
			assert.Equal(t, 1, l.effects())
			l.truly()
		})
	}
}

// watches notes of each answer's body whether it was closed.
type watches struct {
	via  http.RoundTripper
	seen []*watchedBody
}

func (w *watches) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.via.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost {
		b := &watchedBody{Reader: resp.Body}
		w.seen, resp.Body = append(w.seen, b), b
	}
	return resp, err
}

// An answer that is too long to be kept, and told nothing, is given up when the call repeats it or has found what it made:
// no connection stays open for it.
func TestRepeatGivesUpALongAnswer(t *testing.T) {
	for _, row := range []struct {
		name    string
		says    providertest.Fault
		answers int
	}{
		{"and repeats it", providertest.PageBefore(http.StatusRequestHeaderFieldsTooLarge), 2},
		{"and finds it", providertest.PageAfter(http.StatusRequestHeaderFieldsTooLarge), 1},
	} {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Reconcile: filling(), MaxResponseBody: 128}, unique)
			w := &watches{via: l.via.via}
			l.via.via = w
			l.box.Script(row.says)
			out := l.transfers("too-long")
			showing(t, out, "obj_1")
			require.Len(t, w.seen, row.answers)
			assert.NotZero(t, w.seen[0].closed.Load())
			assert.Equal(t, 1, l.effects())
		})
	}
}
