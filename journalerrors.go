package onceward

import "github.com/onceward/onceward/journal"

// What the journal itself returns, by names of this package: errors.Is finds them by
// either name. They are no kinds of Error.
var (
	// ErrJournalVersion: a newer release wrote the journal, or an older one did and it is
	// not to be migrated.
	ErrJournalVersion = journal.ErrVersion

	// ErrJournalClosed: the journal was closed.
	ErrJournalClosed = journal.ErrClosed

	// ErrNotFound: the journal has no such operation or flow.
	ErrNotFound = journal.ErrNotFound

	// ErrInvalidEvent: what was asked for can't happen to an operation or flow in its state.
	// Nothing was changed.
	ErrInvalidEvent = journal.ErrInvalidEvent
)
