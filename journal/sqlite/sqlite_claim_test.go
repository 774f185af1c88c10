//go:build unix

package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// parkMany parks that many operations.
func parkMany(t *testing.T, j *sqlite.Journal, s journal.Session, many int) {
	t.Helper()
	sideBySide(many, func(i int) {
		begun, err := j.Apply(t.Context(), generate(fmt.Sprint("invoice-", i), s))
		if assert.NoError(t, err) {
			park := complete(begun.Operation, s)
			park.Kind, park.Answer = journal.EventPark, nil
			_, err = j.Apply(t.Context(), park)
			assert.NoError(t, err)
		}
	})
}

// claimThese is a claim of those operations alone.
func claimThese(s journal.Session, these func(handle int64) bool) journal.Event {
	ev := claim(s)
	ev.At = ev.At.Add(time.Minute)
	ev.Today = func(op *journal.Operation) (journal.Today, bool) {
		return journal.Today{Terms: terms}, these(op.Handle)
	}
	return ev
}
