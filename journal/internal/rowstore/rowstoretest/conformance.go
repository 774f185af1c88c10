// Package rowstoretest runs package journaltest on a driver, and counts what it skips.
package rowstoretest

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/journal/journaltest"
)

// Skips says how many tests of a part of the suite a driver skips, and why.
type Skips struct {
	Tests  int
	Reason string
}

// NotYet are the parts of the suite that the store on rows does not have yet, on any driver.
func NotYet() map[string]Skips {
	return map[string]Skips{
		"flows":              {14, "no method of journal.Flows"},
		"receipts":           {13, "no method of journal.Receipts"},
		"outbox":             {14, "no method of journal.Outbox"},
		"reconciliation":     {20, "no method of journal.Reconciler"},
		"stats":              {2, "no method of journal.StatsReader"},
		"restored":           {3, "no Adopt, and a driver tells of no restored copy"},
		"jumps of the clock": {2, "they need flows"},
		"interruptions":      {2, "no driver has connections or a server"},
	}
}

// counts are the tests that ran and that were skipped, by part of the suite.
type counts struct {
	mu           sync.Mutex
	ran          int
	skipped      map[string]int
	skippedTests int
}

// Conformance runs the suite, and fails unless it skips just these tests.
func Conformance(t *testing.T, open func(t *testing.T) journaltest.Harness, skips map[string]Skips) {
	t.Helper()
	c := &counts{skipped: make(map[string]int)}
	journaltest.Run(t, func(t *testing.T) journaltest.Harness {
		t.Cleanup(func() { c.note(t) })
		return open(t)
	})
	want := make(map[string]int)
	for part, s := range skips {
		if s.Tests > 0 {
			want[part] = s.Tests
		}
	}
	assert.Equal(t, want, c.skipped, "the tests that were skipped, by part of the suite")
	t.Logf("%d tests ran, %d were skipped", c.ran, c.skippedTests)
}

func (c *counts) note(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.Skipped() {
		c.ran++
		return
	}
	c.skippedTests++
	part := strings.Split(t.Name(), "/")[1]
	c.skipped[strings.ReplaceAll(part, "_", " ")]++
}
