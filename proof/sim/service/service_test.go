package service

import (
	"flag"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/sqlite"
)

var seedFlag = flag.Uint64("service.seed", 0, "live this one life, and tell it")

// liveOnce lives the life of a seed.
func liveOnce(t *testing.T, seed uint64, forgetful bool) (l *life) {
	path := filepath.Join(t.TempDir(), "shop.db")
	synctest.Test(t, func(t *testing.T) {
		j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
		if err != nil {
			t.Fatal(err)
		}
		l = newLife(seed, j, forgetful)
		l.live()
		l.bank.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Services are killed under the clients that ask them. In the end both agree on one effect, one receipt and one
// answer per key.
func TestLivesOfServices(t *testing.T) {
	if *seedFlag != 0 {
		l := liveOnce(t, *seedFlag, false)
		t.Logf("\n%s", strings.Join(l.history, "\n"))
		for _, fault := range l.faults {
			t.Error(fault)
		}
		return
	}
	if !soak.On() {
		t.Skip("the soak lives these: a life is not the same on every run")
	}
	first := soak.Seed(t, 1) % (1 << 40)
	visited := map[string]int{}
	var mu sync.Mutex
	t.Run("side by side", func(t *testing.T) {
		for i := range soak.Times(12, 100) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				seed := first + uint64(i)
				l := liveOnce(t, seed, false)
				for _, fault := range l.faults {
					t.Errorf("-service.seed %d: %s", seed, fault)
				}
				mu.Lock()
				defer mu.Unlock()
				for what, n := range l.visited {
					visited[what] += n
				}
			})
		}
	})
	for _, what := range slices.Sorted(maps.Keys(visited)) {
		t.Logf("%8d %s", visited[what], what)
	}
}

// The judge finds a service whose processes don't share their receipts, so that it takes effect twice. A simulation
// that can't fail proves nothing.
func TestForgetfulServiceIsFound(t *testing.T) {
	l := liveOnce(t, 1, true)
	assert.Contains(t, strings.Join(l.faults, "\n"), "has two receipts")
	assert.Contains(t, strings.Join(l.faults, "\n"), "and the rows")
}
