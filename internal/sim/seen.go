package sim

import (
	"errors"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/sim/visits"
)

// errorsSeen are the errors that callers may be told, by their names.
var errorsSeen = map[string]error{
	"ErrPending":           onceward.ErrPending,
	"ErrOutcomeUnknown":    onceward.ErrOutcomeUnknown,
	"ErrNotSent":           onceward.ErrNotSent,
	"ErrKeyReused":         onceward.ErrKeyReused,
	"ErrInFlight":          onceward.ErrInFlight,
	"ErrAnswerGone":        onceward.ErrAnswerGone,
	"ErrJournal":           onceward.ErrJournal,
	"ErrJournalRestored":   onceward.ErrJournalRestored,
	"ErrCredentialMissing": onceward.ErrCredentialMissing,
	"ErrCredentialRefused": onceward.ErrCredentialRefused,
	"ErrInvalidRequest":    onceward.ErrInvalidRequest,
	"ErrUnprotected":       onceward.ErrUnprotected,
	"ErrNameNeeded":        onceward.ErrNameNeeded,
	"ErrRedirected":        onceward.ErrRedirected,
	"ErrMoved":             onceward.ErrMoved,
	"ErrRetryBudget":       onceward.ErrRetryBudget,
	"ErrShutdown":          onceward.ErrShutdown,
	"ErrFailed":            flow.ErrFailed,
	"ErrSetAside":          flow.ErrSetAside,
	"ErrGivenUp":           flow.ErrGivenUp,
	"ErrChanged":           flow.ErrChanged,
	"ErrInput":             flow.ErrInput,
	"ErrUnregistered":      flow.ErrUnregistered,
	"ErrUndoBlocked":       flow.ErrUndoBlocked,
	"ErrStep":              flow.ErrStep,
	"ErrOpenTransaction":   onceward.ErrOpenTransaction,
	"ErrUnwanted":          onceward.ErrUnwanted,
}

// wasTold counts which of the client's errors somebody was told by err, its kind and its causes.
// All that the client returns to anybody in a life goes by here.
func wasTold(err error) {
	if err == nil {
		return
	}
	for name, e := range errorsSeen {
		if errors.Is(err, e) {
			visits.Count("error: " + name)
		}
	}
}
