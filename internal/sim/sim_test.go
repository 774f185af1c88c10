package sim

import (
	"flag"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 0, "live this one life, and tell it")
	livesFlag = flag.Int("sim.lives", 10, "how many lives")
	freshFlag = flag.Bool("sim.fresh", false, "of seeds that nobody has lived; else the first ones")
)

// liveOnce lives one life and returns what was wrong with it.
func liveOnce(t *testing.T, seed uint64) *life {
	var l *life
	synctest.Test(t, func(t *testing.T) {
		j := open(t, seed)
		l = newLife(seed, j)
		n, days := 1+l.random.IntN(3), 1
		var wanted sync.WaitGroup
		for i := range 1 + l.random.IntN(25) {
			wanted.Go(func() { l.want(i, days) })
		}
		wanted.Go(func() { l.operate(days) })
		l.live(n, days)
		wanted.Wait()
		l.asks.Wait()
		l.heal()
		l.visitUnknown(l.judge())
		_ = j.Close()
	})
	return l
}

// open opens the life's journal: in memory or, for one life in forty, in a file.
func open(t *testing.T, seed uint64) journal.Journal {
	if seed%40 != 0 {
		return memory.New()
	}
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (l *life) visitUnknown(causes map[string]int) {
	for cause, n := range causes {
		l.visited["unknown: "+cause] += n
	}
}

func TestLives(t *testing.T) {
	if *seedFlag != 0 {
		l := liveOnce(t, *seedFlag)
		t.Log("\n" + strings.Join(l.history, "\n"))
		for _, f := range l.faults {
			t.Error(f)
		}
		return
	}
	visited := map[string]int{}
	for i := range *livesFlag {
		seed := uint64(i + 1)
		if *freshFlag {
			seed = rand.Uint64N(1 << 40)
		}
		l := liveOnce(t, seed)
		for what, n := range l.visited {
			visited[what] += n
		}
		if len(l.faults) > 0 {
			t.Errorf("-sim.seed %d: %s", seed, strings.Join(l.faults, "; "))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(visited)) {
		t.Logf("%8d %s", visited[what], what)
	}
}
