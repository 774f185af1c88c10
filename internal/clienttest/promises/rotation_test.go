//go:build unix

package promises_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/providers/providertest"
)

// rotation has two processes' rings, step by step. In some steps one process lacks a key that the other seals with.
var rotation = [][2][]string{
	{{"k1"}, {"k1"}},
	{{"k1"}, {"k1", "k2"}},
	{{"k1"}, {"k2", "k1"}},
	{{"k2", "k1"}, {"k2"}},
	{{"k2"}, {"k3", "k2"}},
	{{"k3", "k2", "k1"}, {"k1", "k3"}},
}

// Two processes share a journal while its keys are rotated, and both are killed again and again. At the end a process with
// all keys completes each name, and each has one effect.
func TestStormOfKillsDuringARotation(t *testing.T) {
	t.Parallel()
	kills, seed := soak.Times(len(rotation)/2, 60), soak.Seed(t, 1)
	random := rand.New(rand.NewPCG(seed, 0))
	srv, wire := newChargeServer(t, contracts[0])
	srv.Seed(seed, providertest.Mix{DropBefore: 0.05, DropAfter: 0.08, Cut: 0.05, Status: 0.1, Statuses: []int{503}})
	plan := childPlan{Journal: filepath.Join(t.TempDir(), "journal.db"), Server: srv.URL, Contract: "Stripe", Attempts: 3, Patience: 2 * time.Second}
	names := 4 * kills
	for n := range kills {
		rings := rotation[n*len(rotation)/kills]
		over := make(chan error, len(rings))
		var both []childProcess
		for i, ids := range rings {
			plan.Keys, plan.Storm = ids, &stormPlan{Seed: seed, Life: 2*n + i, Names: names}
			p, err := startProcess(t.Context(), plan)
			require.NoError(t, err)
			both = append(both, p)
		}
		for _, p := range both { // the next step's rings open a journal only after these have
			var open bool
			_ = p.Out.Decode(&open) // the process's end says why it is not open
			go func() {
				l, err := p.end(nil)
				if err == nil && !l.Killed {
					err = errors.New("it ended by itself")
				}
				over <- err
			}()
		}
		select {
		case <-wire.after(5 + random.IntN(60)):
		case <-time.After(2 * time.Second):
		}
		for _, p := range both {
			p.Kill()
		}
		for range both {
			require.NoError(t, <-over, "step %d", n)
		}
	}
	plan.Keys, plan.Storm = []string{"k3", "k2", "k1"}, &stormPlan{Seed: seed, Life: 2 * kills, Names: names, Last: true}
	p, err := startProcess(t.Context(), plan)
	require.NoError(t, err)
	left, err := p.found()
	_, failed := p.End()
	require.NoError(t, errors.Join(err, failed))
	srv.Close()

	assert.Empty(t, srv.Duplicates(func(e providertest.Effect) string { return string(e.Body) }), "references with more than one effect")
	recorded := map[string]bool{}
	completed := 0
	for _, op := range left {
		recorded[string(op.Key)] = true
		if op.State == onceward.StateCompleted {
			completed++
			assert.Equal(t, 1, srv.EffectsFor(string(op.Key)), op.ID)
		}
	}
	assert.GreaterOrEqual(t, completed, names)
	for key := range wire.keys() {
		assert.True(t, recorded[key], "the key %s was sent without a record", key)
	}
	t.Logf("%d kills, %d requests, %d effects", 2*kills, srv.Requests(), len(srv.Effects()))
}
