package reconcile_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/journal"
)

// However many operations have died in an outage, a process looks for each of them again once.
func TestReconcileReopensEachOnce(t *testing.T) {
	const dead = 5000
	var seen reconcile.SeenSet
	for i := range 2 * dead {
		ref := journal.Ref{ID: strconv.Itoa(i % dead)}
		assert.Equal(t, i < dead, seen.Once(ref, 0), i)
	}
}
