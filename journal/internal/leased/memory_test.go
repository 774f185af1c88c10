package leased

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A sighting behind the latest one, for example from a server that the others have left, does not replace it.
func TestMemoryKeepsTheLatestSighting(t *testing.T) {
	beats := func(n int64) *int64 { return &n }
	latest := Sighting{Epoch: 2, Witnessed: 10, Place: Place{System: "s", Timeline: "00000002"}, Member: "m", Beats: beats(5)}
	for name, row := range map[string]struct{ is, want Sighting }{
		"earlier epoch":    {Sighting{Epoch: 1, Witnessed: 99}, latest},
		"earlier timeline": {Sighting{Epoch: 2, Witnessed: 99, Place: Place{System: "s", Timeline: "00000001"}}, latest},
		"fewer beats":      {Sighting{Epoch: 2, Witnessed: 9, Place: latest.Place, Member: "m", Beats: beats(4)}, latest},
		"no timeline":      {Sighting{Epoch: 2, Witnessed: 10, Place: Place{System: "s"}, Member: "m", Beats: beats(5)}, latest},
		"later epoch":      {Sighting{Epoch: 3}, Sighting{Epoch: 3}},
	} {
		var m Memory
		m.Keep(latest)
		m.Keep(row.is)
		assert.Equal(t, row.want, m.Last(), name)
	}
	var m Memory
	m.Beat("m", 3)
	assert.Zero(t, m.BeatsOf("m"), "there is no sighting")
	m.Keep(latest)
	m.Beat("m", 4)
	assert.EqualValues(t, 5, m.BeatsOf("m"))
	m.Beat("m", 6)
	assert.EqualValues(t, 6, m.BeatsOf("m"))
	assert.Zero(t, m.BeatsOf("another"))
	m.Forget()
	assert.Zero(t, m.BeatsOf("m"))
}
