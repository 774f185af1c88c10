package leased

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// A session is lost a set time after the latest answered beat was sent, and stays lost.
func TestSessionWithoutBeatsIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewSessions(UsualPace)
		s := all.New("a")
		all.Add(s)
		time.Sleep(UsualPace.Lost - 1)
		sent := time.Now()
		all.Heard(sent, all.Living(), []string{"a"})
		time.Sleep(UsualPace.Lost)
		_, err := all.Mine("a")
		require.NoError(t, err)
		time.Sleep(time.Nanosecond)
		assert.True(t, s.Lost())
		_, err = all.Mine("a")
		require.ErrorIs(t, err, journal.ErrSessionLost)
		s.Renewed(time.Now())
		assert.True(t, s.Lost(), "it never revives")
		assert.Empty(t, all.Living())
	})
}

// A session that the database did not renew is lost at once.
func TestSessionThatIsNotRenewedIsLost(t *testing.T) {
	all := NewSessions(UsualPace)
	kept, gone := all.New("kept"), all.New("gone")
	all.Add(kept)
	all.Add(gone)
	all.Heard(time.Now(), all.Living(), []string{"kept", "another's"})
	assert.False(t, kept.Lost())
	assert.True(t, gone.Lost())
	assert.True(t, kept.End())
	assert.False(t, kept.End(), "it has ended")
	assert.False(t, gone.End())
}

// A session learns its rank only once all other processes know of it.
func TestRankOfANewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewSessions(UsualPace)
		s := all.New("b")
		all.Add(s)
		for _, want := range [][2]int{{0, 0}, {1, 3}} {
			all.Rank([]string{"a", "b", "c"})
			rank, of := s.Rank()
			assert.Equal(t, want, [2]int{rank, of})
			time.Sleep(3 * UsualPace.Beat)
		}
	})
}

// A session is dead after it was seen without a beat for the whole lease, and its lease is over by the database's clock. An
// observer that missed a look begins anew.
func TestObserverWaitsForTheWholeLease(t *testing.T) {
	for name, row := range map[string]struct {
		over   bool
		missed int // the look that comes too late; 0 means none
		dead   bool
	}{
		"over":             {true, 0, true},
		"not over":         {false, 0, false},
		"one look is late": {true, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o Observer
				beats := []Beat{{ID: "still", Beats: 7, Over: row.over}, {ID: "beats", Over: true}}
				var dead []Beat
				for i := range 6 {
					if i == row.missed && i > 0 {
						time.Sleep(UsualPace.TTL)
					}
					beats[1].Beats++
					dead = o.Look(UsualPace, beats)
					if i < 5 {
						assert.Empty(t, dead, i)
						time.Sleep(UsualPace.Beat)
					}
				}
				if row.dead {
					assert.Equal(t, beats[:1], dead)
				} else {
					assert.Empty(t, dead)
				}
			})
		})
	}
}

// The first failure after a success is reported, and the next beat comes sooner.
func TestPaceReportsTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		begun := time.Now()
		var at []time.Duration
		warned := 0
		failed := errors.New("no server")
		beats := []error{nil, failed, failed, nil, failed}
		UsualPace.Run(ctx, func() error {
			at = append(at, time.Since(begun))
			if len(at) == len(beats) {
				stop()
			}
			return beats[len(at)-1]
		}, func(err error) { assert.Equal(t, failed, err); warned++ })
		beat, again := UsualPace.Beat, UsualPace.Again
		assert.Equal(t, []time.Duration{beat, 2 * beat, 2*beat + again, 2*beat + 2*again, 3*beat + 2*again}, at)
		assert.Equal(t, 2, warned)
	})
}
