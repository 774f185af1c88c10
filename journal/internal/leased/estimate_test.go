package leased

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// If a process was stopped during a question, before it was sent or before its answer was read, it keeps its earlier
// estimate.
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
			// A process without an estimate uses that answer until it gets a better one.
			c = Estimate{}
			c.HeardAt(time.Now().Add(-stopped), time.Now().Add(ahead+said))
			assert.WithinDuration(t, time.Now().Add(ahead), c.Now(), stopped)
			c.HeardAt(time.Now(), time.Now().Add(ahead))
			is()
		})
	}
}
