package dbclock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A process that was stopped amid a question, before it was sent or before its answer was read, goes by what it was told before.
func TestClockOfAStoppedProcess(t *testing.T) {
	const ahead, stopped = time.Hour, 10 * time.Minute
	for name, said := range map[string]time.Duration{"before it was asked": 0, "before it heard": -stopped} {
		t.Run(name, func(t *testing.T) {
			var c Estimate
			is := func() {
				t.Helper()
				assert.WithinDuration(t, time.Now().Add(ahead), c.Now(), time.Minute)
			}
			c.HeardAt(time.Now(), time.Now().Add(ahead))
			is()
			c.HeardAt(time.Now().Add(-stopped), time.Now().Add(ahead+said))
			is()
			// One who knows nothing yet makes do with it, until he is told better.
			c = Estimate{}
			c.HeardAt(time.Now().Add(-stopped), time.Now().Add(ahead+said))
			assert.WithinDuration(t, time.Now().Add(ahead), c.Now(), stopped)
			c.HeardAt(time.Now(), time.Now().Add(ahead))
			is()
		})
	}
}
