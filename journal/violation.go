package journal

import (
	"fmt"
	"strings"
)

// Violation is a fact in a journal which the state machine or the store's format excludes.
type Violation struct {
	Handle    int64  // of the operation, flow or receipt; 0 for the store's file
	Flow      bool   // Handle is a flow's
	Receipt   bool   // Handle is a receipt's
	Ref       Ref    // of an operation or flow; zero if unreadable
	Invariant string // the broken rule
}

// String shortens names, which may be keys.
func (v Violation) String() string {
	kind := "operation"
	switch {
	case v.Handle == 0:
		return "the file: " + v.Invariant
	case v.Receipt:
		return fmt.Sprintf("receipt %d: %s", v.Handle, v.Invariant)
	case v.Flow:
		kind = "flow"
	}
	id := v.Ref.ID
	if len(id) > 12 {
		id = strings.ToValidUTF8(id[:8], "") + "…"
	}
	return fmt.Sprintf("%s %d %q: %s", kind, v.Handle, id, v.Invariant)
}
