package flow_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

const errNoDriver = flow.Reason("no driver")

// A finished flow that handled an error is replayed.
func TestFinishedFlowWithAHandledErrorIsReplayed(t *testing.T) {
	for _, row := range []struct {
		name   string
		fails  func(p *process, ctx context.Context) error
		copes  error
		answer reply
	}{
		{"a reason of its own", func(*process, context.Context) error { return errNoDriver }, errNoDriver, says(200, paid)},
		{"an error that wraps it", func(*process, context.Context) error { return fmt.Errorf("book: %w at noon", errNoDriver) }, errNoDriver, says(200, paid)},
		{"one of two", func(*process, context.Context) error { return errors.Join(errors.New("sorry"), errNoDriver) }, errNoDriver, says(200, paid)},
		{"ours", func(p *process, ctx context.Context) error {
			_, err := p.Post(onceward.WithScope(ctx, "another"), "card")
			return err
		}, onceward.ErrInvalidRequest, says(200, paid)},
		{"a deadline", func(*process, context.Context) error { return fmt.Errorf("ask: %w", context.DeadlineExceeded) }, context.DeadlineExceeded, says(200, paid)},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Always(row.answer)
			run := func(p *process) (told error, err error) {
				err = p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
					_, told = flow.Step(ctx, "card", func(ctx context.Context) (charge, error) { return charge{}, row.fails(p, ctx) })
					if !errors.Is(told, row.copes) {
						return p.Step(ctx, "bank")
					}
					_, err := flow.Step(ctx, "cash", func(context.Context) (int, error) { return 1, nil })
					return err
				})
				return told, err
			}
			first, err := run(startFlows(t, l, onceward.Config{Journal: j}))
			require.NoError(t, err)
			sent := len(l.Sent())
			again, err := run(startFlows(t, l, onceward.Config{Journal: j}))
			require.NoError(t, err)
			assert.Equal(t, first.Error(), again.Error())
			require.ErrorIs(t, again, row.copes)
			var one, other *onceward.Error
			require.Equal(t, errors.As(first, &one), errors.As(again, &other))
			if one != nil {
				assert.Equal(t, one.Operation.Seen, other.Operation.Seen)
				assert.Equal(t, one.Operation.State, other.Operation.State)
				assert.Equal(t, one.Kind, other.Kind)
			}
			assert.Len(t, l.Sent(), sent)
		})
	}
	each(t, "an error without a reason is another one", func(t *testing.T, j machine.Store) {
		run := func() error {
			p := startFlows(t, &line{}, onceward.Config{Journal: j})
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, "card", func(context.Context) (int, error) { return 0, errSoldOut })
				if errors.Is(err, errSoldOut) {
					return nil
				}
				return err
			})
		}
		require.NoError(t, run())
		err := run()
		require.ErrorIs(t, err, flow.ErrChanged)
		assert.ErrorContains(t, err, "sold out")
		assert.ErrorContains(t, err, "Reason")
	})
}

func TestGiveUpErrorKeepsItsType(t *testing.T) {
	each(t, "for a caller that asks again, and after a crash", func(t *testing.T, j machine.Store) {
		l := &line{}
		run := func(p *process) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if err := p.undoable(ctx, "create"); err != nil {
					return err
				}
				return flow.GiveUp(fmt.Errorf("at noon: %w", errNoDriver))
			})
		}
		died := startFlows(t, l, onceward.Config{Journal: j})
		l.Then(says(200, paid), doing(died.Crash, says(200, paid)))
		require.Error(t, run(died))
		p := startFlows(t, l, onceward.Config{Journal: j})
		for range 2 {
			err := run(p)
			require.ErrorIs(t, err, flow.ErrGivenUp)
			require.ErrorIs(t, err, errNoDriver)
			assert.ErrorContains(t, err, "at noon: no driver")
		}
		err := run(startFlows(t, l, onceward.Config{Journal: j}))
		require.ErrorIs(t, err, errNoDriver)
		assert.Equal(t, "at noon: no driver", p.flow("order-991").GivenUpFor)
	})
	each(t, "an operator's statement has none", func(t *testing.T, j machine.Store) {
		p := startFlows(t, &line{}, onceward.Config{Journal: j})
		fails := func(context.Context) error { return errSoldOut }
		require.Error(t, p.Flow(t.Context(), "order-991", nil, fails))
		_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "no driver")
		require.NoError(t, err)
		for range 2 {
			err = p.Flow(t.Context(), "order-991", nil, fails)
			require.ErrorIs(t, err, flow.ErrGivenUp)
			require.NotErrorIs(t, err, errNoDriver)
			assert.ErrorContains(t, err, "no driver")
		}
	})
}

type receipt struct {
	Number string
	Draw   int
}

func TestAFlowReturnsWhatItsFunctionReturned(t *testing.T) {
	each(t, "recorded, and the same for every caller", func(t *testing.T, j machine.Store) {
		var mu sync.Mutex
		l, runs := (&line{}).Always(takes(time.Second, says(200, paid))), 0
		open := func() (*process, *flow.Func[string, receipt]) {
			var p *process
			ride := flow.Define("ride", 1, func(ctx context.Context, rider string) (receipt, error) {
				mu.Lock()
				runs++
				draw := runs // not in a step: it comes out differently each time
				mu.Unlock()
				return receipt{"of " + rider, draw}, p.Step(ctx, "charge")
			})
			p = startFlows(t, l, onceward.Config{Journal: j}, flow.Config{Definitions: []flow.Definition{ride}})
			return p, ride
		}
		p, ride := open()
		done := make(chan receipt, 3)
		for range cap(done) {
			go func() {
				got, err := ride.Run(t.Context(), p.Flows, "order-991", "ada")
				assert.NoError(t, err)
				done <- got
			}()
		}
		for range cap(done) {
			assert.Equal(t, receipt{"of ada", 1}, <-done)
		}
		p, ride = open()
		got, err := ride.Run(t.Context(), p.Flows, "order-991", "ada")
		require.NoError(t, err)
		assert.Equal(t, receipt{"of ada", 1}, got)
		assert.Equal(t, 1, runs)
		assert.Len(t, l.Sent(), 1)
		assert.JSONEq(t, `{"Number":"of ada","Draw":1}`, string(p.flow("order-991").Result))
		assert.Equal(t, "started → charge → finished", p.flow("order-991").String())

		changed := flow.Define("ride", 1, func(context.Context, string) (int, error) { panic("not called") })
		other := startFlows(t, l, onceward.Config{Journal: j}, flow.Config{Definitions: []flow.Definition{changed}})
		_, err = changed.Run(t.Context(), other.Flows, "order-991", "ada")
		require.ErrorIs(t, err, flow.ErrChanged)
	})
	each(t, "Resume brings it to its end for later callers", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		var p *process
		ride := flow.Define("ride", 1, func(ctx context.Context, rider string) (string, error) {
			return "of " + rider, p.Step(ctx, "charge")
		})
		p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once}, flow.Config{Definitions: []flow.Definition{ride}})
		got, err := ride.Run(t.Context(), p.Flows, "order-991", "ada")
		require.ErrorIs(t, err, onceward.ErrPending)
		assert.Empty(t, got)
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Flows.Finished)
		got, err = ride.Run(t.Context(), p.Flows, "order-991", "ada")
		require.NoError(t, err)
		assert.Equal(t, "of ada", got)
	})
	virtual(t, "a value that can't be recorded is no result", func(t *testing.T) {
		for _, unfit := range []flow.Definition{
			flow.Define("any", 1, func(context.Context, int) (any, error) { return 1, nil }),
			flow.Define("func", 1, func(context.Context, int) (func(), error) { return nil, nil }),
		} {
			err := startFlows(t, &line{}, onceward.Config{}).Flows.Register(unfit)
			require.ErrorContains(t, err, "can't be recorded and read back")
		}
		zero := 0.0
		infinite := flow.Define("infinite", 1, func(context.Context, int) (float64, error) { return 1 / zero, nil })
		p := startFlows(t, &line{}, onceward.Config{}, flow.Config{Definitions: []flow.Definition{infinite}})
		_, err := infinite.Run(t.Context(), p.Flows, "order-991", 1)
		require.ErrorIs(t, err, flow.ErrStep)
		assert.Equal(t, 1, p.flow("order-991").Failures)
	})
}

// Every error in packages onceward and flow is found again in the recorded error of a flow that gave up with it.
func TestErrorsComeBackFromTheJournal(t *testing.T) {
	ours := map[string]error{
		"ErrPending": onceward.ErrPending, "ErrOutcomeUnknown": onceward.ErrOutcomeUnknown, "ErrNotSent": onceward.ErrNotSent,
		"ErrKeyReused": onceward.ErrKeyReused, "ErrInFlight": onceward.ErrInFlight, "ErrAnswerGone": onceward.ErrAnswerGone,
		"ErrJournal": onceward.ErrJournal, "ErrJournalRestored": onceward.ErrJournalRestored, "ErrMoved": onceward.ErrMoved,
		"ErrCredentialMissing": onceward.ErrCredentialMissing, "ErrInvalidRequest": onceward.ErrInvalidRequest,
		"ErrInvalidKey": onceward.ErrInvalidKey, "ErrCredentialRefused": onceward.ErrCredentialRefused,
		"ErrNameNeeded": onceward.ErrNameNeeded, "ErrWithdrawn": onceward.ErrWithdrawn, "ErrUnprotected": onceward.ErrUnprotected, "ErrRedirected": onceward.ErrRedirected,
		"ErrRetryBudget": onceward.ErrRetryBudget, "ErrShutdown": onceward.ErrShutdown, "flow.ErrFailed": flow.ErrFailed,
		"flow.ErrSetAside": flow.ErrSetAside, "flow.ErrGivenUp": flow.ErrGivenUp, "flow.ErrChanged": flow.ErrChanged,
		"flow.ErrInput": flow.ErrInput, "flow.ErrUnregistered": flow.ErrUnregistered, "flow.ErrUndoBlocked": flow.ErrUndoBlocked,
		"flow.ErrStep": flow.ErrStep, "ErrOpenTransaction": onceward.ErrOpenTransaction,
	}
	for folder, prefix := range map[string]string{"..": "", ".": "flow."} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, found := range regexp.MustCompile(`(?m)^(?:var)?\s+(Err\w+)\s+= errors\.New`).FindAllSubmatch(source, -1) {
				assert.NotNil(t, ours[prefix+string(found[1])], "%s of %s", found[1], file)
			}
		}
	}
	for name, kind := range ours {
		virtual(t, name, func(t *testing.T) {
			p := startFlows(t, &line{}, onceward.Config{})
			for range 2 {
				var told error
				_ = p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
					return flow.GiveUp(kind)
				})
				told = p.Flow(t.Context(), "order-991", nil, p.Sequence())
				require.ErrorIs(t, told, flow.ErrGivenUp)
				require.ErrorIs(t, told, kind)
			}
		})
	}
}

func TestAUUIDStepIsTheSameOnEveryHost(t *testing.T) {
	// draw makes a flow of UUIDs and a charge, on a separate journal.
	draw := func(t *testing.T, l *line, secret []byte, ctx context.Context, name string, steps ...string) (ids []string) {
		p := startFlows(t, l, onceward.Config{Secret: secret})
		require.NoError(t, p.Flow(ctx, name, nil, func(ctx context.Context) error {
			for _, step := range steps {
				id, err := flow.UUIDStep(ctx, step)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			return p.Step(ctx, "charge")
		}))
		return ids
	}
	virtual(t, "with the same secret", func(t *testing.T) {
		l := &line{}
		first := draw(t, l, testSecret, t.Context(), "order-991", "number", "charge-number")
		assert.Equal(t, first, draw(t, l, testSecret, t.Context(), "order-991", "number", "charge-number"))
		all := append([]string{}, first...)
		all = append(all, draw(t, l, []byte("another secret!!"), t.Context(), "order-991", "number")...)
		all = append(all, draw(t, l, nil, t.Context(), "order-991", "number")...)
		all = append(all, draw(t, l, nil, t.Context(), "order-991", "number")...)
		all = append(all, draw(t, l, testSecret, t.Context(), "order-992", "number")...)
		all = append(all, draw(t, l, testSecret, onceward.WithScope(t.Context(), "tenant"), "order-991", "number")...)
		for _, id := range all {
			parsed, err := uuid.Parse(id)
			require.NoError(t, err)
			assert.EqualValues(t, 4, parsed.Version())
		}
		assert.Len(t, distinct(all), 7)
		wire := distinct(l.Keys())
		assert.Len(t, distinct(append(all, l.Keys()...)), 7+len(wire), "none of them is a key on the wire")
	})
	virtual(t, "and in every later release", func(t *testing.T) {
		got := draw(t, &line{}, []byte("0123456789abcdef"), t.Context(), "order-991", "number")
		assert.Equal(t, []string{"7424a901-ede6-4d46-b0ac-69881b04ec3f"}, got)
	})
}

// A step whose error the function handles is replayed.
func TestHandledErrorIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(declined)
		p := startFlows(t, l, onceward.Config{})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if p.Step(ctx, "card") == nil {
					return errors.New("not declined")
				}
				return p.Step(ctx, "account")
			})
		}
		require.NoError(t, run())
		require.NoError(t, run())
		assert.Equal(t, []string{"card", "account"}, l.Descriptions())
		assert.Equal(t, "started → account → finished", p.flow("order-991").String())
	})
}

// The journal keeps a Reason from the error from a step that waits or whose answer is gone. The function finds that
// Reason in the recorded error.
func TestReasonOfAStepError(t *testing.T) {
	const soldOut = flow.Reason("sold out")
	for name, row := range map[string]struct {
		reply reply
		is    error
	}{
		"its answer is gone": {cuts(200, paid), onceward.ErrAnswerGone},
		"it waits":           {loses(), onceward.ErrOutcomeUnknown},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(row.reply)
			p := startFlows(t, l, onceward.Config{Backoff: once, Providers: []providers.Provider{forgets()}})
			run := func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
					return 0, errors.Join(soldOut, p.Ask(ctx, to(http.MethodPost, ownURL)).Err)
				})
				if errors.Is(err, soldOut) && errors.Is(err, row.is) {
					return flow.GiveUp(err)
				}
				return err
			}
			_ = p.Flow(t.Context(), "order-991", nil, run)
			require.True(t, p.flow("order-991").Undoing)
			ref := p.flow("order-991").Operation("charge")
			if op := p.Recorded(ref); op.State == journal.StateUnknown {
				_, err := p.ResolveAs(ref, onceward.NotExecuted, nil)
				require.NoError(t, err)
			} else {
				_, err := p.Flows.ResolveStep(t.Context(), order991, "charge", 1, byHand)
				require.NoError(t, err)
			}
			pass(time.Hour)
			err := p.Flow(t.Context(), "order-991", nil, run)
			require.ErrorIs(t, err, flow.ErrGivenUp)
			require.ErrorIs(t, err, soldOut)
		})
	}
}
