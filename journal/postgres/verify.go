package postgres

import (
	"context"

	"github.com/onceward/onceward/journal"
)

// Violation is a state of a journal that the state machine or its tables' format rules out.
type Violation = journal.Violation

// Verify reads the whole journal and returns its violations, at most 1,000. It checks that every operation, flow and
// receipt is as it was written, that no row contradicts or lacks another, and the state machine's invariants
// (journal.Violations, journal.FlowViolations). A sound journal has none. For the database's files use amcheck and
// checksums.
//
// It runs in pages beside other use of the journal, and changes nothing. It may omit operations begun meanwhile. An
// error means that it could not read the whole journal.
func (j *laneJournal) Verify(ctx context.Context) ([]Violation, error) {
	return j.reader().Verify(ctx, j.schema)
}
