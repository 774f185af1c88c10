package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/providers/providertest"
)

// Node programs charge the same names at once by Stripe's SDK. Again and again a program or the proxy is killed, and the
// provider drops, cuts and delays. Each name has one charge in the end, and each answer that a program got is that charge.
//
// The kills are at fixed numbers: of a request that reaches the provider for the proxy, of a charge that is printed for a
// program.
func TestStorm(t *testing.T) {
	node(t, "worker.mjs") // or it skips
	seed := soak.Seed(t, 1)
	names, workers, kills := soak.Times(16, 1000), soak.Times(2, 4), soak.Times(2, 40)
	draw := rand.New(rand.NewPCG(seed, 0))
	s := open(t, providertest.Objects("ch_"))
	s.Seed(seed, providertest.Mix{DropBefore: 0.04, DropAfter: 0.04, Cut: 0.04, CutRequest: 0.02, CutResponse: 0.02, DelayBefore: 0.1, DelayAfter: 0.1})

	var mu sync.Mutex
	running := s.start(t, "--new")
	var at []int
	for range kills {
		at = append(at, 2+draw.IntN(names))
	}
	slices.Sort(at)
	seen := 0
	s.Observe = func(providertest.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen++
		if len(at) > 0 && seen >= at[0] {
			at = at[1:]
			_ = running.Process.Kill()
			<-running.ended
			running = s.start(t)
		}
	}
	answered := map[string]string{}
	var wg sync.WaitGroup
	for w := range workers {
		die := make([]int, soak.Times(1, 5)) // after so many charges, one life after the other
		for i := range die {
			die[i] = 1 + draw.IntN(names/2)
		}
		first := draw.IntN(names)
		wg.Go(func() {
			for life := 0; life <= len(die); life++ {
				printed := 0
				cmd := node(t, "worker.mjs", s.socket, fmt.Sprint(first), fmt.Sprint(names), "8")
				for line := range output(t, cmd) {
					name, id, isCharge := strings.Cut(line, " ")
					if !isCharge {
						return // done
					}
					printed++
					mu.Lock()
					if was, is := answered[name]; is {
						assert.Equal(t, was, id, name)
					}
					answered[name] = id
					mu.Unlock()
					if life < len(die) && printed == die[life] {
						_ = cmd.Process.Kill()
					}
				}
			}
			t.Errorf("worker %d did not end", w)
		})
	}
	wg.Wait()
	made := map[string]string{}
	for _, e := range s.Effects() {
		form, err := url.ParseQuery(string(e.Body))
		require.NoError(t, err)
		assert.NotContains(t, made, form.Get("description"), "two charges")
		made[form.Get("description")] = e.Object
	}
	assert.Len(t, made, names)
	assert.Equal(t, made, answered, "each promise resolved with the name's charge")
	assert.Empty(t, at, "kills that did not happen")
}

// output runs a program, and yields its lines.
func output(t *testing.T, cmd *exec.Cmd) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		out, err := cmd.StdoutPipe()
		if !assert.NoError(t, err) || !assert.NoError(t, cmd.Start()) {
			return
		}
		defer cmd.Wait()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !yield(lines.Text()) {
				return
			}
		}
	}
}
