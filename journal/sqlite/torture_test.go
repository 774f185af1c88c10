//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// childCallers is the environment variable with a child's number of callers.
const childCallers = "ONCEWARD_SQLITE_CALLERS"

// childSuffers begins operations side by side, gives them all kinds of ends, takes over those of others, and prints its
// results.
func childSuffers(path string) error {
	callers, err := strconv.Atoi(os.Getenv(childCallers))
	if err != nil {
		return err
	}
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(os.Stdout, fmt.Sprintln(words...))
	}
	finish := func(op journal.Operation) error {
		ev := complete(op, s)
		ev.Delivered = op.Claim%2 == 0
		what := "completed"
		switch len(op.ID) % 4 {
		case 0:
			ev.Kind, ev.Answer, ev.Unsent = machine.EventCancel, nil, true
			what = "cancelled"
		case 1:
			if op.Claim == 1 {
				ev.Kind, ev.Answer, ev.Open = machine.EventPark, nil, true
				what = "parked"
			}
		}
		result, err := j.Apply(ctx, ev)
		if err == nil && result.Decision == machine.Recorded {
			if result.Operation.State != journal.StateCancelled && what == "cancelled" {
				what = "parked" // another process may have sent it before
			}
			say(what, op.ID, op.Claim)
		}
		return err
	}
	failed := make(chan error)
	for g := range callers {
		go func() {
			for n := 0; ; n++ {
				ev := begin(fmt.Sprint(s.ID(), "-", g, "-", n), s)
				if n%2 == 0 {
					ev = generate(ev.Ref.ID, s)
				}
				begun, err := j.Apply(ctx, ev)
				if err == nil {
					say("begun", ev.Ref.ID, begun.Operation.Claim)
					err = finish(begun.Operation)
				}
				if err != nil {
					failed <- err
				}
			}
		}()
	}
	go func() {
		for {
			results, err := j.Claim(ctx, claim(s), 5)
			for _, result := range results {
				if err == nil && result.Decision == machine.Execute {
					say("taken", result.Operation.ID, result.Operation.Claim)
					err = finish(result.Operation)
				}
			}
			if err != nil {
				failed <- err
			}
			runtime.Gosched()
		}
	}()
	return <-failed
}

// heard has the results that processes printed, by operation.
type heard struct {
	mu    sync.Mutex
	what  map[string]string         // the last result of the operation's latest claim
	claim map[string]int64          // the latest claim
	hands map[string]map[int64]bool // claims that a process got
}

func (h *heard) line(t *testing.T, line string) {
	words := strings.Fields(line)
	if len(words) != 3 {
		assert.Len(t, words, 3, line) // a line that was cut short promises nothing
		return
	}
	what, id := words[0], words[1]
	claim, err := strconv.ParseInt(words[2], 10, 64)
	if !assert.NoError(t, err, line) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if what == "begun" || what == "taken" {
		if h.hands[id] == nil {
			h.hands[id] = make(map[int64]bool)
		}
		assert.False(t, h.hands[id][claim], "%s is in two hands", id)
		h.hands[id][claim] = true
	}
	if claim >= h.claim[id] {
		h.what[id], h.claim[id] = what, claim
	}
}

// However many processes are killed, no operation is lost, and none has two holders.
func TestTortureKilledProcesses(t *testing.T) {
	t.Parallel()
	kills := soak.Times(4, 16)
	random := seeded(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	acknowledged, killed := 0, 0
	for round := 0; killed < kills; round++ {
		callers := []int{1, 8, 64, 256}[round%4]
		h := &heard{what: map[string]string{}, claim: map[string]int64{}, hands: map[string]map[int64]bool{}}
		var reading sync.WaitGroup
		var children []*exec.Cmd
		for range 1 + round%3 {
			cmd, lines := start(t, "suffer", path, fmt.Sprint(childCallers, "=", callers))
			children = append(children, cmd)
			left := random.IntN(1200)
			reading.Go(func() {
				for n := 0; lines.Scan(); n++ {
					h.line(t, lines.Text())
					if n == left {
						assert.NoError(t, cmd.Process.Kill())
					}
				}
			})
		}
		reading.Wait()
		for _, cmd := range children {
			_ = cmd.Wait()
			killed++
		}

		// They are all dead, so that any session may claim their operations.
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		for more := true; more; {
			results, err := j.Claim(t.Context(), claim(s), 50)
			require.NoError(t, err)
			for _, result := range results {
				op := result.Operation
				if result.Decision != machine.Execute {
					continue
				}
				was := h.what[op.ID]
				assert.False(t, op.Claim-1 == h.claim[op.ID] && (was == "completed" || was == "cancelled"), "%s was %s", op.ID, was)
				assert.False(t, h.hands[op.ID][op.Claim], "%s is in two hands", op.ID)
				_, err := j.Apply(t.Context(), complete(op, s))
				require.NoError(t, err)
			}
			more = len(results) == 50
		}
		for id, what := range h.what {
			op, err := j.Get(t.Context(), journal.Ref{ID: id})
			require.NoError(t, err, "%s was acknowledged as %s", id, what)
			assert.True(t, op.State.Settled(), "%s is %s", id, op.State)
			assert.GreaterOrEqual(t, op.Claim, h.claim[id])
			if op.Claim == h.claim[id] {
				if what == "cancelled" {
					assert.Equal(t, journal.StateCancelled, op.State, id)
				}
				if what == "completed" {
					assert.Equal(t, journal.StateCompleted, op.State, id)
				}
			}
			if op.State == journal.StateCompleted {
				assert.Equal(t, "paid "+id, string(op.Answer.Body))
			}
		}
		acknowledged += len(h.what)
		require.NoError(t, s.End(t.Context()))
		assert.Empty(t, sessionFiles(t, path), "those of the dead are removed")
		require.NoError(t, sound(t.Context(), j))
	}
	t.Logf("%d kills, %d operations acknowledged, none lost", killed, acknowledged)
}

// A thousand callers that give up at any moment leave nothing in flight.
func TestThousandCallersGiveUpAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	random := seeded(t)
	var callers sync.WaitGroup
	var mu sync.Mutex
	gaveUp, stayed := 0, 0
	for g := range 1000 {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		callers.Go(func() {
			for n := range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(int(30*time.Millisecond))))
				if random.IntN(10) == 0 {
					cancel()
				}
				ev := begin(fmt.Sprint(g, "-", n), s)
				if n == 1 {
					ev = generate(ev.Ref.ID, s)
				}
				ev.Asker = int64(10*g + n + 1)
				begun, err := j.Apply(ctx, ev)
				if err != nil {
					assert.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled), err)
					// The begin may have been recorded despite the error.
					_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventCancel, Ref: ev.Ref, At: ev.At, Session: s.ID(), Asker: ev.Asker, Unsent: true})
					assert.NoError(t, err)
				} else {
					last := complete(begun.Operation, s)
					if kind := random.IntN(3); kind > 0 {
						last.Kind, last.Answer, last.Unsent = []machine.EventKind{machine.EventPark, machine.EventCancel}[kind-1], nil, true
						last.Due = time.Now().Add(time.Hour)
					}
					if _, err = j.Apply(ctx, last); err != nil {
						_, err := j.Apply(t.Context(), last)
						assert.NoError(t, err)
					}
				}
				cancel()
				mu.Lock()
				if err != nil || ctx.Err() == context.DeadlineExceeded {
					gaveUp++
				} else {
					stayed++
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	t.Logf("%d gave up, %d did not", gaveUp, stayed)
	for op, err := range j.List(t.Context(), journal.Filter{States: []journal.State{journal.StateInFlight}}) {
		require.NoError(t, err)
		assert.Fail(t, "in flight, and nobody sends it", op.ID)
	}
	results, err := j.Claim(t.Context(), claim(s), 10)
	require.NoError(t, err)
	assert.Empty(t, results)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	assert.Empty(t, sessionFiles(t, path))
	stacks := make([]byte, 1<<20)
	assert.Eventually(t, func() bool {
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "/journal/sqlite.")
	},
		10*time.Second, 10*time.Millisecond, "a goroutine of the journal's is left behind")
}

// While clocks jump, the journal's time never goes back, and no operation is sent again after its window.
func TestTortureClocksThatJump(t *testing.T) {
	t.Parallel()
	const retention, margin = 24 * time.Hour, time.Hour // margin: a quarter, at most an hour
	path := filepath.Join(t.TempDir(), "journal.db")
	random := seeded(t)
	var latest time.Time // that the journal has seen
	resent, refused := 0, 0
	var ticking sync.Mutex
	clock := time.Now()
	now := func(random *rand.Rand) time.Time {
		ticking.Lock()
		defer ticking.Unlock()
		if clock = clock.Add(time.Duration(random.Int64N(int64(10 * time.Minute)))); random.IntN(150) == 0 {
			clock = clock.Add(time.Duration(random.Int64N(int64(96*time.Hour))) - 48*time.Hour)
		}
		return clock
	}
	for life := range 6 {
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		var mu sync.Mutex
		var callers sync.WaitGroup
		atLeast := latest
		for g := range 8 {
			random := rand.New(rand.NewPCG(random.Uint64(), 0))
			callers.Go(func() {
				seen := atLeast
				for n := range 60 {
					clock := now(random)
					ev := begin(fmt.Sprint(life, "-", g, "-", n/4), s)
					if life > 0 && n%3 == 0 {
						ev = begin(fmt.Sprint(random.IntN(life), "-", g, "-", random.IntN(15)), s)
					}
					ev.At = clock
					result, err := j.Apply(t.Context(), ev)
					if !assert.NoError(t, err) {
						return
					}
					assert.False(t, result.Last.Before(seen), "the journal's time went back")
					if result.Unconfirmed.IsZero() {
						assert.False(t, result.Last.Before(clock.Truncate(time.Millisecond)))
					}
					seen = result.Last
					op := result.Operation
					mu.Lock()
					switch {
					case result.Decision != machine.Execute:
						if op.State == journal.StateUnknown || result.Decision == machine.Later {
							refused++
						}
					case op.Found.MayHaveRun:
						resent++
						assert.True(t, result.Last.Before(op.FirstSentAt.Add(retention-margin)), "sent again after its window")
					}
					mu.Unlock()
					if result.Decision != machine.Execute {
						continue
					}
					ev = complete(op, s)
					ev.At, ev.Kind, ev.Answer, ev.Open = clock.Add(time.Second), machine.EventPark, nil, true
					result, err = j.Apply(t.Context(), ev)
					if !assert.NoError(t, err) {
						return
					}
					assert.False(t, result.Last.Before(seen))
					seen = result.Last
				}
				mu.Lock()
				defer mu.Unlock()
				if seen.After(latest) {
					latest = seen
				}
			})
		}
		callers.Wait()
		if life%2 == 0 {
			sqlite.Kill(s)
		}
		require.NoError(t, j.Close())
	}
	t.Logf("%d sent again within their window, %d refused", resent, refused)
	assert.Positive(t, resent)
	assert.Positive(t, refused)
}
