// Package rowstoretest runs package journaltest on a driver, and counts what it skips.
package rowstoretest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/journaltest"
)

// counts are the numbers of run and skipped tests, by suite part.
type counts struct {
	mu      sync.Mutex
	ran     int
	skipped map[string]int
}

// Conformance runs the suite, and verifies each journal that is still open when its test ends. Conformance fails if an
// unlisted part skips a test, or if fewer tests than least run.
func Conformance(t *testing.T, open func(t *testing.T) journaltest.Harness, skips map[string]string, least int) {
	t.Helper()
	c := &counts{skipped: make(map[string]int)}
	journaltest.Run(t, func(t *testing.T) journaltest.Harness {
		t.Cleanup(func() { c.note(t) })
		h := open(t)
		t.Cleanup(func() { requireSound(t, h.Journal) })
		return h
	})
	total := 0
	for part, n := range c.skipped {
		total += n
		assert.Contains(t, skips, part, "%d tests were skipped without a listed reason", n)
		t.Logf("%d tests of %q were skipped: %s", n, part, skips[part])
	}
	t.Logf("%d tests ran, %d were skipped", c.ran, total)
	assert.GreaterOrEqual(t, c.ran, least, "tests ran")
}

func requireSound(t *testing.T, j machine.Store) {
	t.Helper()
	found, err := j.(interface {
		Verify(ctx context.Context) ([]journal.Violation, error)
	}).Verify(context.Background())
	if errors.Is(err, journal.ErrClosed) {
		return
	}
	assert.NoError(t, err)
	assert.Empty(t, found)
}

func (c *counts) note(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Skipped() {
		part := strings.Split(t.Name(), "/")[1]
		c.skipped[strings.ReplaceAll(part, "_", " ")]++
	} else {
		c.ran++
	}
}
