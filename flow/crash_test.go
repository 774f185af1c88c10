//go:build unix

package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// rideServers are the ride's two providers.
type rideServers struct{ ledger, stripe *providertest.Server }

func newRideServers() rideServers {
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"of-%s"}`, r.URL.Path)
	}
	s := rideServers{
		ledger: providertest.NewUnstartedServer(providers.IETF(24*time.Hour).WithStoredFailures(), http.HandlerFunc(answer)),
		stripe: providertest.NewUnstartedServer(providers.Stripe(), http.HandlerFunc(answer)),
	}
	for _, srv := range []*providertest.Server{s.ledger, s.stripe} {
		srv.RetryAfter = -1
		srv.Start()
	}
	return s
}

func (s rideServers) close() {
	s.ledger.Close()
	s.stripe.Close()
}

// await waits, within limits, until there are n more requests.
func (s rideServers) await(n int) {
	requests := func() int { return s.ledger.Requests() + s.stripe.Requests() }
	before := requests()
	for range 2000 {
		if requests() >= before+n {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// effects counts each step's effects, as "ride-1 charge at stripe".
func (s rideServers) effects() map[string]int {
	count := map[string]int{}
	for name, srv := range map[string]*providertest.Server{"ledger": s.ledger, "stripe": s.stripe} {
		for _, e := range srv.Effects() {
			var body struct{ Ride, Step string }
			_ = json.Unmarshal(e.Body, &body) // a body that isn't JSON is not ours, and is counted as such
			count[body.Ride+" "+body.Step+" at "+name]++
		}
	}
	return count
}

// oneOfEach returns the expected effects of finished flows.
func oneOfEach(rides ...string) map[string]int {
	want := map[string]int{}
	for _, ride := range rides {
		for _, s := range rideSteps {
			want[ride+" "+s.name+" at "+s.provider] = 1
		}
	}
	return want
}

// liveFlows lets a process carry out a plan.
func liveFlows(ctx context.Context, path string, doom doom, plan flowPlan) (life flowLife, killed bool, err error) {
	plan.Journal, plan.Doom = path, doom
	p, err := oncetest.StartChild(ctx, plan)
	if err != nil {
		return life, false, err
	}
	undecoded := p.Out.Decode(&life)
	killed, err = p.End()
	if killed || err != nil {
		return life, killed, err
	}
	return life, false, undecoded
}

// flowCrash is one row in the flow's crash table. Each of its moments kills a process, in order.
type flowCrash []doom

func (c flowCrash) String() string {
	name := ""
	for i, d := range c {
		if i > 0 {
			name += "/during Resume "
		}
		name += fmt.Sprintf("%s, %d", d.At, d.Pass+1)
	}
	return name
}

// crashesAt lists crashes at points that are passed n times from the first pass on. Each point crashes at one of
// these passes, the next point at the next. In the soak each point crashes at all of them.
func crashesAt(first, n int, points ...point) (all []flowCrash) {
	for i, at := range points {
		for k := range soak.Times(1, n) {
			pass := first + (i+k)%n
			if at == oncetest.MidBody {
				pass *= 3 // an answer is read in three parts
			}
			all = append(all, flowCrash{{At: at, Pass: pass}})
		}
	}
	return all
}

// callPoints are one operation's points.
var callPoints = []point{
	oncetest.BeforeEvent(machine.EventBegin), oncetest.AfterEvent(machine.EventBegin), oncetest.AfterConnect, oncetest.AfterLastByte, oncetest.AfterStatusLine,
	oncetest.MidBody, oncetest.BeforeEvent(machine.EventComplete), oncetest.AfterEvent(machine.EventComplete),
}

// recordPoints are the points around the writes for a step's record. Each step has two writes: the note of its
// operation, and its result.
var recordPoints = []point{
	beforeFlowEvent(machine.FlowEventRecord), beforeFlowEvent(machine.FlowEventRecord),
	afterFlowEvent(machine.FlowEventRecord), afterFlowEvent(machine.FlowEventRecord),
}

// flowCrashes are all boundaries inside and between steps, and pairs of them.
func flowCrashes() (all []flowCrash) {
	all = append(crashesAt(0, len(rideSteps), callPoints...), crashesAt(0, 2*len(rideSteps), recordPoints...)...)
	for i, at := range []point{inTransaction, beforeRecord, beforeItCommit} {
		all = append(all, flowCrash{{At: at}})
		if sample.Takes(i, 3) {
			all = append(all, flowCrash{{At: at}, {At: at}})
		}
	}
	for _, kind := range []machine.FlowEventKind{machine.FlowEventBegin, machine.FlowEventFinish} {
		all = append(all, flowCrash{{At: beforeFlowEvent(kind)}}, flowCrash{{At: afterFlowEvent(kind)}})
	}
	cutOff := doom{At: oncetest.AfterEvent(machine.EventBegin), Pass: 1}
	for i, at := range []point{
		beforeFlowEvent(machine.FlowEventClaim), afterFlowEvent(machine.FlowEventClaim), oncetest.AfterConnect, oncetest.AfterLastByte,
		beforeFlowEvent(machine.FlowEventRecord), afterFlowEvent(machine.FlowEventRecord), oncetest.AfterEvent(machine.EventComplete), beforeFlowEvent(machine.FlowEventFinish),
	} {
		if sample.Takes(i, 2) {
			all = append(all, flowCrash{cutOff, {At: at}})
		}
	}
	return all
}

// crashed is the result for a flow whose processes were killed.
type crashed struct {
	killed  int
	last    flowLife
	effects map[string]int
	err     error
}

// crashFlows asks for a flow, kills its process, resumes the flow, and asks for it once more, for each of these
// crashes.
func crashFlows(t *testing.T, crashes []flowCrash, id string, inbound bool) []crashed {
	t.Helper()
	outcomes := make([]crashed, len(crashes))
	root := t.TempDir()
	oncetest.SeveralAtOnce(len(crashes), 8, func(i int) {
		o := &outcomes[i]
		servers := newRideServers()
		defer servers.close()
		path := filepath.Join(root, strconv.Itoa(i)+".db")
		plan := flowPlan{Ledger: servers.ledger.URL, Stripe: servers.stripe.URL, Asks: []string{id}, Inbound: inbound}
		for _, d := range crashes[i] {
			_, killed, err := liveFlows(t.Context(), path, d, plan)
			if o.err = err; err != nil {
				return
			}
			if killed {
				o.killed++
			}
			plan.Resume, plan.Asks = true, nil
			<-time.After(oncetest.RestartAfter)
		}
		plan.Asks = []string{id}
		o.last, _, o.err = liveFlows(t.Context(), path, doom{}, plan)
		o.effects = servers.effects()
	})
	return outcomes
}

// A flow finishes with one effect per step, wherever its process is killed.
func TestKilledAnywhereAFlowFinishes(t *testing.T) {
	t.Parallel()
	crashes := flowCrashes()
	outcomes := crashFlows(t, crashes, "ride-1", false)
	for i, c := range crashes {
		t.Run(c.String(), func(t *testing.T) {
			o := outcomes[i]
			require.NoError(t, o.err)
			require.Equal(t, len(c), o.killed, "processes that were killed")
			if c[0].At == beforeFlowEvent(machine.FlowEventBegin) {
				assert.Empty(t, o.last.Left, "it was not begun")
			} else if assert.Len(t, o.last.Left, 1) {
				assert.Equal(t, flow.StateFinished, o.last.Left[0].State, "finished by Resume itself: %v", o.last.Left[0].Cause)
				assert.Equal(t, "started → number → write → create → charge → notify → receipt → finished", o.last.Left[0].String())
			}
			assert.Empty(t, o.last.Errs)
			assert.Equal(t, oneOfEach("ride-1"), o.effects)
			assert.Equal(t, []string{"ride-1"}, o.last.Rows, "what the local step wrote")
		})
	}
}

// A process that enqueues a flow with an order is killed after each step. The order and its flow are there together or
// not at all, and the flow takes effect once.
func TestKilledAnywhereAnEnqueuedFlowFinishes(t *testing.T) {
	t.Parallel()
	rows := []struct {
		doom
		committed bool
	}{
		{doom{At: inTransaction}, false}, {doom{At: beforeRecord}, false}, {doom{At: beforeItCommit}, false}, {doom{At: afterCommit}, true},
		{doom{At: beforeFlowEvent(machine.FlowEventClaim)}, true}, {doom{At: afterFlowEvent(machine.FlowEventClaim)}, true},
		{doom{At: oncetest.AfterLastByte}, true}, {doom{At: beforeFlowEvent(machine.FlowEventFinish)}, true}, {doom{At: afterFlowEvent(machine.FlowEventFinish)}, true},
	}
	root := t.TempDir()
	type outcome struct {
		killed  bool
		last    flowLife
		effects map[string]int
		err     error
	}
	outcomes := make([]outcome, len(rows))
	oncetest.SeveralAtOnce(len(rows), 4, func(i int) {
		o := &outcomes[i]
		servers := newRideServers()
		defer servers.close()
		path := filepath.Join(root, strconv.Itoa(i)+".db")
		plan := flowPlan{Ledger: servers.ledger.URL, Stripe: servers.stripe.URL, Enqueues: "ride-1", Resume: true}
		if _, o.killed, o.err = liveFlows(t.Context(), path, rows[i].doom, plan); o.err != nil {
			return
		}
		<-time.After(oncetest.RestartAfter)
		o.last, _, o.err = liveFlows(t.Context(), path, doom{}, plan)
		o.effects = servers.effects()
	})
	for i, row := range rows {
		t.Run(string(row.At), func(t *testing.T) {
			o := outcomes[i]
			require.NoError(t, o.err)
			require.True(t, o.killed)
			want := 0
			if row.committed {
				want = 1
			}
			assert.Equal(t, want, o.last.FoundOrders)
			assert.Equal(t, want, o.last.FoundFlows)
			assert.Equal(t, 1, o.last.Orders)
			if assert.Len(t, o.last.Flows, 1) {
				assert.Equal(t, flow.StateFinished, o.last.Flows[0].State, o.last.Flows[0].Cause)
			}
			assert.Equal(t, oneOfEach("ride-1"), o.effects)
		})
	}
}

// inboundCrashes are all boundaries of the steps of a flow that is given up, and of their undos. By default
// flowCrashes alone has those of the steps.
func inboundCrashes() (all []flowCrash) {
	for i, first := range []int{len(orderSteps), 0} { // undoing, and forward
		if !sample.Takes(i, 2) {
			continue
		}
		all = append(all, crashesAt(first, len(orderSteps), callPoints...)...)
		all = append(all, crashesAt(2*first, 2*len(orderSteps), recordPoints...)...)
	}
	for _, kind := range []machine.FlowEventKind{machine.FlowEventBegin, machine.FlowEventGiveUp, machine.FlowEventUndo} {
		all = append(all, flowCrash{{At: beforeFlowEvent(kind)}}, flowCrash{{At: afterFlowEvent(kind)}})
	}
	undoing := doom{At: afterFlowEvent(machine.FlowEventGiveUp)}
	for i, at := range []point{
		beforeFlowEvent(machine.FlowEventClaim), afterFlowEvent(machine.FlowEventClaim), oncetest.AfterConnect, oncetest.AfterLastByte,
		oncetest.AfterEvent(machine.EventComplete), beforeFlowEvent(machine.FlowEventRecord), afterFlowEvent(machine.FlowEventRecord), beforeFlowEvent(machine.FlowEventUndo),
	} {
		if sample.Takes(i, 2) {
			all = append(all, flowCrash{undoing, {At: at}})
		}
	}
	return all
}

// A process is killed anywhere in an inbound request's handler. A flow that is given up still has each effect
// once, and takes each back once.
func TestKilledAnywhereInAHandler(t *testing.T) {
	t.Parallel()
	crashes := inboundCrashes()
	outcomes := crashFlows(t, crashes, "order-1", true)
	once := map[string]int{}
	for _, s := range orderSteps {
		once["order-1 "+s.name+" at "+s.provider], once["order-1 "+s.undo+" at "+s.provider] = 1, 1
	}
	for i, c := range crashes {
		t.Run(c.String(), func(t *testing.T) {
			o := outcomes[i]
			require.NoError(t, o.err)
			require.Equal(t, len(c), o.killed, "processes that were killed")
			if c[0].At == beforeFlowEvent(machine.FlowEventBegin) {
				assert.Empty(t, o.last.Left, "it was not begun")
			} else if assert.Len(t, o.last.Left, 1) {
				assert.Equal(t, flow.StateGivenUp, o.last.Left[0].State, "undone by Resume itself: %v", o.last.Left[0].Cause)
			}
			if assert.Len(t, o.last.Errs, 1) {
				assert.Contains(t, o.last.Errs[0], "no courier is there", "whoever asks again is told why")
			}
			assert.Equal(t, once, o.effects)
		})
	}
}

// Two processes that resume together make no step twice.
func TestTwoProcessesResumeTogether(t *testing.T) {
	t.Parallel()
	const many = 30
	servers := newRideServers()
	defer servers.close()
	path := filepath.Join(t.TempDir(), "journal.db")
	plan := flowPlan{Ledger: servers.ledger.URL, Stripe: servers.stripe.URL}
	for i := range many {
		plan.Asks = append(plan.Asks, rideName(i))
	}
	_, killed, err := liveFlows(t.Context(), path, doom{At: oncetest.AfterEvent(machine.EventBegin), Together: many}, plan)
	require.NoError(t, err)
	require.True(t, killed)
	rides := plan.Asks
	plan.Asks, plan.Resume = nil, true
	var lives [2]flowLife
	var errs [2]error
	oncetest.SeveralAtOnce(2, 2, func(i int) { lives[i], _, errs[i] = liveFlows(t.Context(), path, doom{}, plan) })
	require.NoError(t, errors.Join(errs[:]...))
	t.Logf("claimed %d and %d", lives[0].Resumed.Claimed, lives[1].Resumed.Claimed)
	// A flow that waits for the other process's operation is claimed again when it is due.
	assert.GreaterOrEqual(t, lives[0].Resumed.Claimed+lives[1].Resumed.Claimed, many)
	plan.Asks = rides
	last, _, err := liveFlows(t.Context(), path, doom{}, plan)
	require.NoError(t, err)
	assert.Empty(t, last.Errs)
	assert.Equal(t, oneOfEach(rides...), servers.effects())
	for _, f := range last.Flows {
		assert.Equal(t, flow.StateFinished, f.State, f.ID)
	}
}

// TestStormOfKillsLeavesOneEffectAStep kills a process that runs flows
// through faults again and again, after a number of requests. The seed decides on faults and kills, but not on the scheduling.
func TestStormOfKillsLeavesOneEffectAStep(t *testing.T) {
	t.Parallel()
	const perLife = 10
	kills, seed := soak.Times(4, 100), soak.Seed(t, 4711)
	random := rand.New(rand.NewPCG(seed, 1))
	servers := newRideServers()
	defer servers.close()
	mix := providertest.Mix{DropBefore: 0.02, DropAfter: 0.02, Cut: 0.02, DelayBefore: 0.1, DelayAfter: 0.1, MaxDelay: 10 * time.Millisecond}
	servers.ledger.Seed(seed, mix)
	servers.stripe.Seed(seed+1, mix)
	path := filepath.Join(t.TempDir(), "journal.db")
	plan := flowPlan{Ledger: servers.ledger.URL, Stripe: servers.stripe.URL, Names: perLife}
	for life := range kills {
		plan.Seed, plan.First = seed+uint64(life), life*perLife
		plan.Journal = path
		p, err := oncetest.StartChild(t.Context(), plan)
		require.NoError(t, err)
		servers.await(1 + random.IntN(3*perLife)) // of the four that each flow makes
		p.Kill()
		_, _ = p.End()
		require.Empty(t, p.Stderr.String())
	}
	before := len(servers.effects())
	t.Logf("%d effects before the last life", before)
	plan.Last, plan.Resume, plan.First, plan.Names = true, true, 0, perLife*kills
	last, killed, err := liveFlows(t.Context(), path, doom{}, plan)
	require.NoError(t, err)
	require.False(t, killed)
	t.Logf("the last life resumed %d flows", last.Resumed.Claimed)
	rides := make([]string, plan.Names)
	for i := range rides {
		rides[i] = rideName(i)
	}
	assert.Equal(t, oneOfEach(rides...), servers.effects())
	assert.ElementsMatch(t, rides, last.Rows)
	assert.Len(t, last.Flows, plan.Names)
	for _, f := range last.Flows {
		assert.Equal(t, flow.StateFinished, f.State, f.ID)
	}
	assert.NotZero(t, before, "the processes were killed before they did anything")
}
