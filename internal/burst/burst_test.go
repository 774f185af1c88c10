package burst_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/burst"
)

func TestAFailureHasALineAMinute(t *testing.T) {
	t.Parallel()
	var lines burst.Lines
	at := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	logged := map[string]int{}
	omitted := 0
	for range 120 {
		n, logs := lines.Logs("the store is out", at)
		if logs {
			logged["the store is out"]++
			omitted += n
		}
		if _, logs := lines.Logs("another failure", at); logs {
			logged["another failure"]++
		}
		at = at.Add(time.Second)
	}
	assert.Equal(t, map[string]int{"the store is out": 2, "another failure": 2}, logged)
	assert.Equal(t, 59, omitted)
	_, logs := lines.Logs("the store is out", at.Add(-time.Hour))
	assert.True(t, logs, "a clock that was set back silences nothing")
}
