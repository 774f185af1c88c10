package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/onceward/onceward/journal"
)

// Violation is a state of a journal that the state machine or its tables' format rules out.
type Violation struct {
	Handle    int64       // of the operation, flow or receipt
	Flow      bool        // of a flow
	Receipt   bool        // of a receipt
	Ref       journal.Ref // of an operation or flow; zero if it can't be read
	Invariant string      // what does not hold
}

// String shortens names, which may be keys.
func (v Violation) String() string {
	kind := "operation"
	switch {
	case v.Flow:
		kind = "flow"
	case v.Receipt:
		return fmt.Sprintf("receipt %d: %s", v.Handle, v.Invariant)
	}
	id := v.Ref.ID
	if len(id) > 12 {
		id = strings.ToValidUTF8(id[:8], "") + "…"
	}
	return fmt.Sprintf("%s %d %q: %s", kind, v.Handle, id, v.Invariant)
}

// Verify reads the whole journal and returns its violations, at most 1,000. It checks that every operation, flow and
// receipt is as it was written, that no row contradicts or lacks another, and the state machine's invariants
// (journal.Violations, journal.FlowViolations). A sound journal has none. For the database's files use amcheck and
// checksums.
//
// It runs in pages beside other use of the journal, and changes nothing. It may omit operations begun meanwhile. An
// error means that it could not read the whole journal.
func (j *Journal) Verify(ctx context.Context) ([]Violation, error) {
	found, err := j.reader().Verify(ctx, j.schema)
	var all []Violation
	for _, v := range found {
		all = append(all, Violation(v))
	}
	return all, err
}
