package request_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

type traceKey int

const (
	claimOf traceKey = iota
	attemptOf
)

func TestTraceReportsAnOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
		l := (&line{}).Then(refuses(), loses(), limited, cuts(200, paid))
		p := start(t, l, onceward.Config{Trace: &onceward.Trace{
			Started: func(ctx context.Context, op onceward.Operation, why onceward.Why) context.Context {
				say("started %s: %s, background %t, endpoint %s", op.ID, why.Reason, why.Background, op.Endpoint)
				return context.WithValue(ctx, claimOf, op.Claim)
			},
			AttemptStarted: func(ctx context.Context, _ onceward.Operation, n int) context.Context {
				say("attempt %d of claim %v", n, ctx.Value(claimOf))
				return context.WithValue(ctx, attemptOf, n)
			},
			AttemptEnded: func(ctx context.Context, op onceward.Operation, a onceward.Attempt) {
				assert.Equal(t, a.Number, ctx.Value(attemptOf))
				say("attempt %d: status %d, %v, unsent %t, error %t", a.Number, a.Status, a.Verdict, a.Unsent, a.Err != nil)
			},
			Delayed: func(_ context.Context, _ onceward.Operation, d time.Duration) { say("delayed %t", d > 0) },
			Ended: func(ctx context.Context, op onceward.Operation, err error) {
				assert.NotNil(t, ctx.Value(claimOf))
				say("ended %s, attempts %d, answer %t, error %v", op.State, op.Attempts, op.Answer != nil, err)
			},
			Asked: func(ctx context.Context, op onceward.Operation, outcome onceward.CallResult, err error, took time.Duration) {
				assert.Nil(t, ctx.Value(claimOf), "it is the caller's own")
				say("asked %s, replayed %t, answer %t, took %t, error %t", outcome, op.Replayed, op.Answer != nil, took > 0, err != nil)
			},
		}})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		assert.Equal(t, []string{
			"started invoice-1/charge: new, background false, endpoint POST /v1/charges",
			"attempt 1 of claim 1", "attempt 1: status 0, verdict(0), unsent true, error true", "delayed true",
			"attempt 2 of claim 1", "attempt 2: status 0, verdict(0), unsent false, error true", "delayed true",
			"attempt 3 of claim 1", "attempt 3: status 429, not executed, unsent false, error false", "delayed true",
			"attempt 4 of claim 1", "attempt 4: status 200, final, unsent false, error false", "delayed true",
			"attempt 5 of claim 1", "attempt 5: status 200, final, unsent false, error false",
			"ended completed, attempts 5, answer false, error <nil>",
			"asked executed, replayed false, answer false, took true, error false",
			"asked replayed, replayed true, answer false, took false, error false",
		}, told)
	})
}

func TestItIsSilentByDefault(t *testing.T) {
	const variable = "ONCEWARD_TEST_SILENT"
	if os.Getenv(variable) == "" {
		// The default logger belongs to the whole process, so the test runs in a child process.
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestItIsSilentByDefault$")
		child.Env = append(os.Environ(), variable+"=1")
		var said bytes.Buffer
		child.Stderr = &said
		require.NoError(t, child.Run(), &said)
		assert.Empty(t, said.String())
		return
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(loses(), frozen)
		p := start(t, l, onceward.Config{})
		require.Equal(t, 500, p.Ask(named(t, "invoice-1/charge")).Status)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
	})
}

// The caller's traceparent is kept, without the other headers that propagate with it.
func TestTraceParentIsKept(t *testing.T) {
	for name, row := range map[string]struct {
		header string
		hook   func(context.Context) string
		want   string
	}{
		"the request's":             {parentOfCall, nil, parentOfCall},
		"the context's goes before": {"00-11111111111111111111111111111111-2222222222222222-00", func(context.Context) string { return parentOfCall }, parentOfCall},
		"none":                      {"", func(context.Context) string { return "" }, ""},
		"no traceparent":            {"jane@example.com", nil, ""},
		"and more":                  {parentOfCall + "-x", nil, ""},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Backoff: once, Trace: &onceward.Trace{Parent: row.hook}})
			out := p.Ask(named(t, invoice), with("Traceparent", row.header), with("Baggage", "user=jane"))
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			assert.Equal(t, row.want, out.Op.Trace)
			pass(time.Hour)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			op, err := p.Operation(t.Context(), onceward.Ref{ID: invoice})
			require.NoError(t, err)
			assert.Equal(t, row.want, op.Trace)
			assert.Equal(t, onceward.StateCompleted, op.State)
		})
	}
}

// Each hook is called, in order, and gets the context that the one before it returned.
func TestTracesAreJoined(t *testing.T) {
	virtual(t, "all hooks", func(t *testing.T) {
		var told []string
		each := func(who string) *onceward.Trace {
			var tr onceward.Trace
			v := reflect.ValueOf(&tr).Elem()
			for i := range v.NumField() {
				name, of := v.Type().Field(i).Name, v.Field(i).Type()
				v.Field(i).Set(reflect.MakeFunc(of, func(args []reflect.Value) []reflect.Value {
					told = append(told, who+" "+name)
					if of.NumOut() == 0 {
						return nil
					}
					if of.Out(0).Kind() == reflect.String {
						return []reflect.Value{reflect.ValueOf("")}
					}
					ctx := args[0].Interface().(context.Context)
					return []reflect.Value{reflect.ValueOf(context.WithValue(ctx, traceKey(99), fmt.Sprint(ctx.Value(traceKey(99)), who)))}
				}))
			}
			return &tr
		}
		joined := onceward.JoinTraces(each("a"), nil, &onceward.Trace{}, each("b"))
		v := reflect.ValueOf(joined).Elem()
		for i := range v.NumField() {
			told = nil
			of := v.Field(i).Type()
			var args []reflect.Value
			for n := range of.NumIn() {
				arg := reflect.New(of.In(n)).Elem()
				if n == 0 && of.In(n).Kind() == reflect.Interface {
					arg.Set(reflect.ValueOf(t.Context()))
				}
				args = append(args, arg)
			}
			out := v.Field(i).Call(args)
			name := v.Type().Field(i).Name
			assert.Equal(t, []string{"a " + name, "b " + name}, told)
			if len(out) == 1 && out[0].Kind() == reflect.Interface {
				assert.Equal(t, "<nil>ab", out[0].Interface().(context.Context).Value(traceKey(99)), name)
			}
		}
	})
}

// Trace reports takeovers, resolutions, reaps and lost sessions.
func TestTraceReportsTakeoversResolutionsReapsAndSessions(t *testing.T) {
	virtual(t, "resolved, a lost session, reaped", func(t *testing.T) {
		j := memory.New()
		var told []string
		say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
		trace := &onceward.Trace{
			Started: func(ctx context.Context, op onceward.Operation, why onceward.Why) context.Context {
				say("%s %s, background %t", op.ID, why.Reason, why.Background)
				return ctx
			},
			Resolved: func(_ context.Context, op onceward.Operation, r onceward.Resolution) {
				assert.Nil(t, op.Answer)
				say("%s %s by %s", op.ID, r, op.Resolved.By)
			},
			Settled: func(_ context.Context, op onceward.Operation, err error) {
				say("settled %s %s, %v", op.ID, op.State, err)
			},
			SessionLost: func(context.Context) { say("session lost") },
			Reaped:      func(_ context.Context, n int) { say("reaped %d", n) },
		}
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Trace: trace, Keep: time.Hour,
			Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return nil }}, Providers: []providers.Provider{own(noKey)}})
		out := p.Ask(named(t, invoice), to("POST", ownURL))
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		_, err := p.Resolve(t.Context(), out.Op.Seen, onceward.NotExecuted, onceward.ResolveOptions{By: "jane"})
		require.NoError(t, err)
		require.NoError(t, p.Ask(named(t, invoice), to("POST", ownURL)).Err)
		j.Kill(p.Journal.Sessions()[0].ID())
		require.NoError(t, p.Ask(named(t, "order-2"), to("POST", ownURL)).Err)
		assert.Equal(t, []string{invoice + " new, background false", invoice + " not_executed by jane", invoice + " generation, background false",
			"session lost", "order-2 new, background false"}, told)

		told = nil
		pass(2 * time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- p.Run(ctx) }()
		pass(time.Minute)
		stop()
		require.ErrorIs(t, <-ran, context.Canceled)
		assert.Contains(t, told, "reaped 2")

		l.Then(loses())
		require.ErrorIs(t, p.Ask(named(t, "order-3"), to("POST", ownURL)).Err, onceward.ErrOutcomeUnknown)
		_, err = p.ResolveAs(onceward.Ref{ID: "order-3"}, onceward.Executed, &onceward.Answer{Status: 200})
		require.NoError(t, err)
	})
	virtual(t, "taken over, and settled", func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		say := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf(format, args...))
		}
		j, l := memory.New(), &line{}
		dead := start(t, l, onceward.Config{Journal: j})
		l.Then(doing(func() { dead.Crash() }, loses()))
		dead.Ask(named(t, invoice))
		first := true
		p := start(t, l, onceward.Config{Journal: j, Trace: &onceward.Trace{
			Started: func(ctx context.Context, op onceward.Operation, why onceward.Why) context.Context {
				say("%s %s, background %t", op.ID, why.Reason, why.Background)
				return ctx
			},
			Ended: func(_ context.Context, op onceward.Operation, err error) { say("ended %s, %v", op.State, err) },
			Settled: func(_ context.Context, op onceward.Operation, err error) {
				assert.Nil(t, op.Answer)
				say("settled %s, %v", op.State, err)
			},
		}, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error {
			if first {
				first = false
				return errDiskFull
			}
			return nil
		}}})
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		pass(time.Hour)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{invoice + " taken_over, background true", "ended completed, <nil>",
			"settled completed, " + errDiskFull.Error(), "settled completed, <nil>"}, told)
	})
}

// Joined traces keep the first traceparent that one of them has.
func TestJoinedTracesKeepTheFirstParent(t *testing.T) {
	const other = "00-11111111111111111111111111111111-2222222222222222-00"
	says := func(parent string) *onceward.Trace {
		return &onceward.Trace{Parent: func(context.Context) string { return parent }}
	}
	for _, row := range [][]string{{parentOfCall, other}, {"", parentOfCall}, {parentOfCall, ""}} {
		virtual(t, fmt.Sprint(row), func(t *testing.T) {
			p := start(t, &line{}, onceward.Config{Trace: onceward.JoinTraces(says(row[0]), says(row[1]))})
			assert.Equal(t, parentOfCall, p.Ask(named(t, invoice)).Op.Trace)
		})
	}
}

// Trace.Started gets a claim's reason: a repeated call, or a dead process.
func TestTraceReportsTheReasonOfAClaim(t *testing.T) {
	for _, row := range []struct {
		name  string
		reply reply
		dies  bool
		want  onceward.Reason
	}{
		{"it was not sent", refuses(), false, onceward.ReasonAgain},
		{"it may have run", loses(), false, onceward.ReasonAgain},
		{"a process died over it", hangs(), true, onceward.ReasonTakenOver},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.reply)
			was := start(t, l, onceward.Config{Backoff: once})
			if row.dies {
				leavesInFlight(t, was, l.Instead(), func() { was.Ask(named(t, invoice)) })
			} else {
				require.ErrorIs(t, was.Ask(named(t, invoice)).Err, onceward.ErrPending)
			}
			pass(time.Hour)
			var why []onceward.Reason
			p := start(t, l, onceward.Config{Journal: was.Journal.Store, Trace: &onceward.Trace{
				Started: func(ctx context.Context, _ onceward.Operation, w onceward.Why) context.Context {
					why = append(why, w.Reason)
					return ctx
				},
			}})
			require.NoError(t, p.Ask(named(t, invoice)).Err)
			assert.Equal(t, []onceward.Reason{row.want}, why)
		})
	}
}

// Trace.Asked gets the outcome for a call that returns an error.
func TestAskedReportsErrors(t *testing.T) {
	for _, row := range []struct {
		name  string
		reply reply
		want  onceward.CallResult
	}{
		{"pending", loses(), onceward.CallPending},
		{"unknown", frozen, onceward.CallUnknown},
		{"another request", misused, onceward.CallKeyReused},
	} {
		virtual(t, row.name, func(t *testing.T) {
			var got []onceward.CallResult
			p := start(t, (&line{}).Then(row.reply), onceward.Config{Backoff: once, Trace: &onceward.Trace{
				Asked: func(_ context.Context, _ onceward.Operation, outcome onceward.CallResult, _ error, _ time.Duration) {
					got = append(got, outcome)
				},
			}})
			require.Error(t, p.Ask(named(t, invoice)).Err)
			assert.Equal(t, []onceward.CallResult{row.want}, got)
		})
	}
}
