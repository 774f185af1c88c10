package machine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// A reference that the client fills in changes only when the key may carry another body.
func TestReferenceOfABegin(t *testing.T) {
	refused := func(reference string, ours bool) func(*journal.Operation) {
		return func(op *journal.Operation) {
			op.Reference, op.ReferenceName, op.ReferenceOurs = reference, "form old", ours
		}
	}
	unsent := func(reference string, ours bool) func(*journal.Operation) {
		return func(op *journal.Operation) {
			refused(reference, ours)(op)
			op.FirstSentAt, op.LastEndedAt = time.Time{}, time.Time{}
		}
	}
	absent := func(op *journal.Operation) { *op = journal.Operation{} }
	fills := func(in *machine.Intent) {
		in.Reference, in.ReferenceName, in.ReferenceOurs = "", "form new", true
		in.NextReference = func(key string, generation int) string { return fmt.Sprintf("%s, %d", key, generation) }
	}
	fixed := func(in *machine.Intent) { in.Reference, in.ReferenceName, in.ReferenceOurs = "fixed", "form new", true }
	callers := func(in *machine.Intent) { in.Reference, in.ReferenceName = "callers", "form new" }
	const none = ""
	for name, row := range map[string]struct {
		before      func(op *journal.Operation)
		asks        func(in *machine.Intent)
		carried     bool
		another     bool // the request is another than before
		keyless     bool
		is, inField string
	}{
		"a new operation":                          {before: absent, asks: fills, is: "its key, 0", inField: "form new"},
		"a new operation, with one that is given":  {before: absent, asks: fixed, is: "fixed", inField: "form new"},
		"a new operation, with its caller's":       {before: absent, asks: callers, is: "callers", inField: "form new"},
		"a carried key":                            {before: absent, asks: fills, carried: true, is: none},
		"a carried key, and its caller's":          {before: absent, asks: callers, carried: true, is: "callers", inField: "form new"},
		"refused before, with one":                 {before: refused("old", true), asks: fills, is: "old", inField: "form old"},
		"refused before, without one":              {before: refused(none, false), asks: fills, is: none},
		"refused before, with its caller's":        {before: refused("callers", false), asks: fills, is: none},
		"never sent, without one":                  {before: unsent(none, false), asks: fills, is: "its key, 1", inField: "form new"},
		"never sent, with one":                     {before: unsent("old", true), asks: fills, is: "its key, 1", inField: "form new"},
		"never sent, with its caller's":            {before: unsent("callers", false), asks: fills, is: "its key, 1", inField: "form new"},
		"refused before, another request, no key":  {before: refused("old", true), asks: fills, another: true, keyless: true, is: ", 2", inField: "form new"},
		"refused before, without one, and no key":  {before: refused(none, false), asks: fills, keyless: true, is: none},
		"refused before, with one, and its caller": {before: refused("old", true), asks: callers, is: "callers", inField: "form new"},
	} {
		t.Run(name, func(t *testing.T) {
			naming := journal.Named
			if row.carried {
				naming = journal.Carried
			}
			op := operation(naming, guarded)
			op.State, op.MayHaveRun, op.KeyCarried = journal.StateCancelled, false, false
			row.before(&op)
			ev := begin(naming, guarded)
			row.asks(ev.Intent)
			if row.another {
				ev.Intent.Fingerprint = "another request"
			}
			if row.keyless {
				op.Key, ev.Intent.Key, ev.Intent.NextKey = "", "", nil
			}
			op, decision := next(t, op, false, ev)
			require.Equal(t, machine.Execute, decision)
			assert.Equal(t, row.is, op.Reference)
			assert.Equal(t, row.inField, op.ReferenceName)
			assert.Equal(t, row.is != none && row.is != "callers", op.ReferenceOurs)
		})
	}
}
