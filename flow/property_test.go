package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// program is a random flow. Its seed determines everything that it does.
type program struct {
	seed  uint64
	parts []part
}

// part is one step, or several at once.
type part struct {
	steps []programStep
}

type programStep struct {
	name  string
	kind  journal.StepKind
	named []string // operations with a name of their own, beside the unnamed one
}

func newProgram(seed uint64) program {
	random := rand.New(rand.NewPCG(seed, 7))
	p := program{seed: seed}
	n := 0
	newStep := func(kind journal.StepKind) programStep {
		n++
		s := programStep{name: fmt.Sprint("step-", n), kind: kind}
		for i := range random.IntN(3) {
			s.named = append(s.named, fmt.Sprint("named-", i))
		}
		return s
	}
	for range 1 + random.IntN(6) {
		switch random.IntN(5) {
		case 0:
			p.parts = append(p.parts, part{[]programStep{newStep(journal.StepTime)}})
		case 1:
			p.parts = append(p.parts, part{[]programStep{newStep(journal.StepUUID)}})
		case 2:
			var several part
			for range 2 + random.IntN(3) {
				several.steps = append(several.steps, newStep(journal.StepDone))
			}
			p.parts = append(p.parts, several)
		default:
			p.parts = append(p.parts, part{[]programStep{newStep(journal.StepDone)}})
		}
	}
	return p
}

// run is the flow's function. Its random values go into the bodies that follow them.
func (pr program) run(p *process, order uint64) func(context.Context) error {
	return func(ctx context.Context) error {
		random := rand.New(rand.NewPCG(order, 3))
		drawn := ""
		for _, part := range pr.parts {
			ctx := ctx
			if len(part.steps) > 1 {
				var names []string
				for _, s := range part.steps {
					names = append(names, s.name)
				}
				ctx = flow.Parallel(ctx, names...)
			}
			var wg sync.WaitGroup
			errs, texts := make([]error, len(part.steps)), make([]string, len(part.steps))
			for i, s := range part.steps {
				delay := time.Duration(random.IntN(5)) * time.Second
				wg.Go(func() {
					<-time.After(delay)
					texts[i], errs[i] = s.run(p, ctx, drawn)
				})
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				return err
			}
			for _, text := range texts {
				drawn += text
			}
		}
		return nil
	}
}

func (s programStep) run(p *process, ctx context.Context, drawn string) (string, error) {
	switch s.kind {
	case journal.StepTime:
		at, err := flow.TimeStep(ctx, s.name)
		return at.Format(time.RFC3339Nano), err
	case journal.StepUUID:
		return flow.UUIDStep(ctx, s.name)
	}
	_, err := flow.Step(ctx, s.name, func(ctx context.Context) (int, error) {
		_, err := p.Post(ctx, s.name+"+"+drawn)
		for _, name := range s.named {
			_, failed := p.Post(onceward.WithOperation(ctx, name), s.name+"/"+name+"+"+drawn)
			err = errors.Join(err, failed)
		}
		return len(drawn), err
	})
	return "", err
}

// byName indexes the requests that came over the line by the name at each body's beginning.
func byName(l *line) map[string]sent {
	all := map[string]sent{}
	for _, s := range l.Sent() {
		name, _, _ := strings.Cut(strings.TrimPrefix(s.Body, "description="), "+")
		all[name] = s
	}
	return all
}

// leavePrefix makes the journal for a process that died after it had recorded some of a flow's steps.
func leavePrefix(t *testing.T, f journal.Flow, steps []journal.StepRecord) *memory.Journal {
	j := memory.New()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	res, err := j.ApplyFlow(t.Context(), machine.FlowEvent{
		Kind: machine.FlowEventBegin, Ref: f.Ref, At: time.Now(), Session: s.ID(), Key: f.Key, Input: f.Input, InputDigest: f.InputDigest,
	})
	require.NoError(t, err)
	_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{
		Kind: machine.FlowEventRecord, Ref: f.Ref, At: time.Now(), Claim: res.Flow.Claim, Steps: steps,
	})
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	return j
}

// A flow that runs again from any recorded prefix issues the same keys.
func TestRunAgainFromAnyPrefixHasTheSameKeys(t *testing.T) {
	t.Parallel()
	prefixes, first := 0, soak.Seed(t, 0)
	for i := range soak.Times(12, 300) {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			pr := newProgram(seed)
			l, j := &line{}, memory.New()
			p := startFlows(t, l, onceward.Config{Journal: j})
			require.NoError(t, p.Flow(t.Context(), "order-991", seed, pr.run(p, 0)))
			whole, err := j.GetFlow(t.Context(), onceward.Ref{ID: "order-991"})
			require.NoError(t, err)
			want := byName(l)
			require.Len(t, distinct(l.Keys()), len(want), "seed %d: each has a key of its own", seed)
			for n := range len(whole.Steps) + 1 {
				prefixes++
				l := &line{}
				p := startFlows(t, l, onceward.Config{Journal: leavePrefix(t, whole, whole.Steps[:n])})
				require.NoError(t, p.Flow(t.Context(), "order-991", seed, pr.run(p, uint64(n)+1)), "seed %d, prefix %d", seed, n)
				left, drawn := pr.after(whole.Steps[:n])
				var made []string
				for name, again := range byName(l) {
					made = append(made, name)
					assert.Equal(t, want[name].Key, again.Key, "seed %d, prefix %d: the key of %s", seed, n, name)
					if drawn {
						assert.Equal(t, want[name].Body, again.Body, "seed %d, prefix %d: what is recorded is in it", seed, n)
					}
				}
				assert.ElementsMatch(t, left, made, "seed %d, prefix %d: what is not recorded is made, and nothing else", seed, n)
			}
		})
	}
	t.Logf("%d prefixes", prefixes)
}

// after lists the requests that are still to be sent after the recorded steps. drawn reports whether the recorded
// steps include all random values.
func (pr program) after(recorded []journal.StepRecord) (left []string, drawn bool) {
	done := map[string]bool{}
	for _, s := range recorded {
		done[s.Name] = s.Kind != journal.StepCall
	}
	drawn = true
	for _, part := range pr.parts {
		for _, s := range part.steps {
			switch {
			case done[s.name]:
			case s.kind != journal.StepDone:
				drawn = false
			default:
				left = append(left, s.name)
				for _, name := range s.named {
					left = append(left, s.name+"/"+name)
				}
			}
		}
	}
	return left, drawn
}

// A step that charges another card in each run charges at most one, and none after its flow's end.
func TestStepThatChangesItsCardChargesOne(t *testing.T) {
	t.Parallel()
	first := soak.Seed(t, 0)
	for i := range soak.Times(15, 600) {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 11))
			l, j := &line{}, memory.New()
			charged := map[string]bool{}
			var p *process
			refused := map[string]bool{}
			l.Always(reply{Answer: func(req *http.Request) (*http.Response, error) {
				key, r := req.Header.Get("Idempotency-Key"), says(200, paid)
				switch n := random.IntN(6); {
				case refused[key] || !charged[key] && n == 0: // the provider remembers its answer
					refused[key], r = true, declined
				case !charged[key] && n == 1:
					return says(400, `{"error":{"type":"invalid_request_error","code":"parameter_missing"}}`).Answer(req)
				case n == 2:
					charged[key], r = true, loses()
				case n == 3:
					charged[key], r = true, doing(p.Crash, r)
				default:
					charged[key] = true
				}
				return r.Answer(req)
			}})
			run := func(ctx context.Context) error {
				made := func(ctx context.Context) (int, error) {
					defer func() {
						if random.IntN(2) == 0 {
							p.Crash() // before the step is recorded
						}
					}()
					switch card := random.IntN(5); card {
					case 0:
						return 1, nil // it was paid elsewhere
					case 1:
						return 0, errSoldOut
					default:
						if random.IntN(4) == 0 {
							l.Instead(refuses())
						}
						return 1, errOf(p.Post(onceward.WithOperation(ctx, fmt.Sprint("card-", card)), "charge"))
					}
				}
				return errOf(flow.Step(ctx, "charge", made))
			}
			ended := -1
			for range 12 {
				p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once}, flow.Config{Backoff: backoff.Policy{MaxAttempts: 100}})
				if random.IntN(2) == 0 {
					_, _ = p.Resume(t.Context())
				}
				_ = p.Flow(t.Context(), "order-991", nil, run)
				pass(time.Duration(random.IntN(120)) * time.Minute)
				l.Instead()
				f, err := j.GetFlow(t.Context(), order991)
				require.NoError(t, err)
				if f.State == flow.StateFinished && ended < 0 {
					ended = len(l.Sent())
				}
			}
			require.LessOrEqual(t, len(charged), 1, "seed %d", seed)
			assert.True(t, ended < 0 || ended == len(l.Sent()), "seed %d: it was charged after its end", seed)
		})
	}
}
