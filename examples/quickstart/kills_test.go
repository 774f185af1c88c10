package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
func TestStormSpeaksOfWhatWentWrong(t *testing.T) {
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
