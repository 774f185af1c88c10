//go:build unix

package main

import (
	"bytes"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/soak"
)

func TestASeedRepeatsItsKills(t *testing.T) {
	assert.Equal(t, drawKills(7, 25, 250), drawKills(7, 25, 250))
	assert.NotEqual(t, drawKills(7, 25, 250), drawKills(8, 25, 250))
}

func TestKillsAreSpreadOverAllRequests(t *testing.T) {
	for seed := range uint64(100) {
		kills := drawKills(seed, 25, 250)
		assert.Len(t, kills, 25)
		before, after := 0, 0
		for i, k := range kills {
			assert.Greater(t, k.request, i*10)
			assert.LessOrEqual(t, k.request, (i+1)*10)
			assert.Less(t, k.delay, maxKillDelay)
			if k.delay == 0 {
				before++
			} else {
				after++
			}
		}
		assert.Positive(t, before, "kills before the effect, seed %d", seed)
		assert.Positive(t, after, "kills after a while, seed %d", seed)
	}
}

// A storm speaks of everything that went wrong.
func TestStormReportsEachFault(t *testing.T) {
	fine := left{invoices: 3, effects: 3, kills: 2, wanted: 2}
	assert.NoError(t, fine.verdict())
	for want, wrong := range map[string]left{
		"effects beyond the first of an invoice: 1":         {duplicates: 1},
		"invoices without an effect: 1":                     {lost: 1},
		"invoices that took effect unknown to the payer: 1": {misjudged: 1},
		"invoices of unknown outcome: 1":                    {unknown: 1},
		"kills that did not take place: 1":                  {wanted: 2, kills: 1},
	} {
		assert.EqualError(t, wrong.verdict(), want)
	}
}

// The payer is killed in several storms. It pays each invoice once, and loses none. In the two short ones the kill comes
// late, and no fault keeps the payer, which does not end before it. The soak has storms of twenty kills, with deploys and
// an outage.
func TestStormsOfKills(t *testing.T) {
	t.Parallel()
	type planned struct {
		seed            uint64
		invoices, kills int
	}
	storms := []planned{{164, 1, 1}, {193, 1, 1}}
	if seed := soak.Seed(t, 0); soak.On() {
		storms = []planned{{seed, 40, 20}, {seed + 1, 40, 20}, {seed + 2, 40, 20}}
	}
	rows := []string{"invoices", "effects in the providers' ledgers", "duplicates", "lost: never made, never will be",
		"made, but taken for failed or unheard of", "unknown, and said so: for a person", "requests", "kills", "deploys", "operations resumed"}
	total, wanted := map[string]int{}, 0
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, s := range storms {
		wanted += s.kills
		group.Go(func() {
			var out, errs bytes.Buffer
			status := run(t.Context(), []string{"-payer", "onceward", "-invoices", strconv.Itoa(s.invoices), "-kills", strconv.Itoa(s.kills), "-seed", strconv.FormatUint(s.seed, 10)}, &out, &errs)
			mu.Lock()
			defer mu.Unlock()
			assert.Zero(t, status, "seed %d: %s%s", s.seed, &out, &errs)
			for _, row := range rows {
				found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(row) + ` +(\d+)$`).FindStringSubmatch(out.String())
				if assert.NotNil(t, found, row) {
					count, err := strconv.Atoi(found[1])
					assert.NoError(t, err)
					total[row] += count
				}
			}
			t.Logf("seed %d: %d kills so far, %d effects of %d invoices", s.seed, total["kills"], total["effects in the providers' ledgers"], total["invoices"])
		})
	}
	group.Wait()
	for _, row := range rows {
		t.Logf("%-42s%10d", row, total[row])
	}
	assert.Equal(t, wanted, total["kills"])
	assert.Equal(t, total["invoices"], total["effects in the providers' ledgers"])
}
