package model_test

import (
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/proof/model"
)

var (
	full  = flag.Bool("model.full", false, "explore the worlds within their full budgets: minutes, and gigabytes")
	world = flag.String("model.world", "", "explore this world only")
)

// limits of states: a search that meets its own fails, since it is not exhaustive.
const shortLimit, fullLimit = 2_000_000, 30_000_000

func TestNoInvariantIsBrokenInAnyHistory(t *testing.T) {
	states, began := 0, time.Now()
	go ahead()
	for _, cfg := range model.Worlds {
		if *world != "" && *world != cfg.Name {
			continue
		}
		held := t.Run(cfg.Name, func(t *testing.T) {
			start := time.Now()
			res, err := explore(cfg)
			if v := res.Violation; v != nil {
				t.Fatalf("invariant %d is broken: %s\n%s", v.Invariant.Number, v.Invariant.Statement, v.History)
			}
			require.NoError(t, err)
			states += res.States
			t.Logf("%s Within %s: %d states, %d transitions, depth %d, exhaustive; in %v",
				cfg.About, budget(cfg), res.States, res.Transitions, res.Depth, time.Since(start).Round(time.Millisecond))
		})
		if !held {
			return // the worlds are in the order of their size
		}
	}
	t.Logf("%d states in all; in %v", states, time.Since(began).Round(time.Millisecond))
}

// ahead searches the worlds from the last to the first, beside the test that searches them from the first to the last.
func ahead() {
	for _, cfg := range slices.Backward(model.Worlds) {
		if !*full && *world == "" {
			_, _ = short[cfg.Name]()
		}
	}
}

func budget(cfg model.Config) model.Budget {
	if *full {
		return cfg.Full
	}
	return cfg.Budget
}

func explore(cfg model.Config) (model.Result, error) {
	if *full {
		cfg = cfg.InFull()
		return model.Explore(&cfg, model.Real(), fullLimit)
	}
	return short[cfg.Name]()
}

// short searches each world within its short budget, once for all tests.
var short = func() map[string]func() (model.Result, error) {
	searches := map[string]func() (model.Result, error){}
	for _, cfg := range model.Worlds {
		searches[cfg.Name] = sync.OnceValues(func() (model.Result, error) {
			return model.Explore(&cfg, model.Real(), shortLimit)
		})
	}
	return searches
}()
