package docs_test

// All documents that are made from code:
//go:generate go test -C .. -p 1 -run Document ./docs ./providers ./internal/shown -update
//go:generate go test -C ../proof -p 1 -run Document ./model ./model/receipt -update
//go:generate go test -C ../cmd/onceward -run Document . -update

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

var update = flag.Bool("update", false, "rewrite the parts of the documents that are made from the code")

// The documents' generated parts match the code.
func TestDocumentParts(t *testing.T) {
	for _, part := range []struct{ file, name, made string }{
		{"docs/design.md", "table: transitions", transitionTable(t)},
		{"docs/design.md", "picture: states", statesPicture(t)},
		{"docs/architecture.md", "picture: parts", partsPicture(t)},
		{"docs/reconciliation.md", "picture: evidence", findingPicture(t)},
	} {
		t.Run(part.name, func(t *testing.T) {
			begin := "<!-- " + part.name + " -->\n"
			before, rest, found := strings.Cut(content(t, part.file), begin)
			require.True(t, found, "%s has no %s", part.file, begin)
			stands, after, found := strings.Cut(rest, "<!-- end -->")
			require.True(t, found)
			if *update {
				require.NoError(t, os.WriteFile(filepath.Join(root, part.file), []byte(before+begin+part.made+"<!-- end -->"+after), 0o644))
				return
			}
			assert.Equal(t, part.made, stands, "made from the code anew by: go generate ./docs")
		})
	}
}

// transitionTable asks Next for every state and event, in every situation that its answer can depend on, and lists the
// possible results.
func transitionTable(t *testing.T) string {
	t.Helper()
	kinds := []machine.EventKind{machine.EventBegin, machine.EventEnqueue, machine.EventClaim, machine.EventComplete, machine.EventPark,
		machine.EventMarkUnknown, machine.EventCancel, machine.EventResolve, machine.EventDeliver, machine.EventReap}
	var b strings.Builder
	b.WriteString("| state |")
	for _, k := range kinds {
		fmt.Fprintf(&b, " %s |", k)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(kinds)+1) + "\n")
	for _, state := range append([]journal.State{journal.StateAbsent}, journal.States...) {
		fmt.Fprintf(&b, "| %s |", state)
		for _, kind := range kinds {
			var cells []string
			for _, now := range situations(state, kind) {
				after, decision, err := machine.Next(now.op, now.live, now.event)
				cell := "–"
				switch {
				case err != nil:
				case decision == machine.Ignored || decision == machine.Stale:
					cell = decision.String()
				case after.State == state && !after.Tombstone:
					cell = decision.String()
				case after.Tombstone && !now.op.Tombstone:
					cell = decision.String() + " → tombstone"
				case after.Tombstone:
					cell = decision.String()
				default:
					cell = decision.String() + " → " + after.State.String()
				}
				if !slices.Contains(cells, cell) {
					cells = append(cells, cell)
				}
			}
			if len(cells) > 1 {
				cells = slices.DeleteFunc(cells, func(c string) bool { return c == "–" })
			}
			slices.Sort(cells)
			fmt.Fprintf(&b, " %s |", strings.Join(cells, "<br>"))
		}
		b.WriteString("\n")
	}
	return b.String()
}

type situation struct {
	op    journal.Operation
	live  bool
	event machine.Event
}

// situations returns the situations in which an event can meet an operation in a state.
func situations(state journal.State, kind machine.EventKind) (all []situation) {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	never := journal.Terms{}
	always := journal.Terms{Remembers: providers.Everything, Retention: 24 * time.Hour, Guard: true}
	both := []bool{false, true}
	for _, terms := range []journal.Terms{never, always} {
		for _, mayHaveRun := range both {
			for _, live := range both {
				for _, other := range both { // another request, an older claim, undelivered
					for _, tombstone := range both {
						for _, due := range both {
							op := journal.Operation{Ref: journal.Ref{ID: "a"}, State: state, Claim: 2, Fingerprint: "f", Key: "k", Terms: terms,
								MayHaveRun: mayHaveRun, FirstSentAt: at, CreatedAt: at, SettledAt: at, Delivered: !other}
							switch state {
							case journal.StateAbsent:
								op = journal.Operation{}
							case journal.StateInFlight:
								op.Holder, op.MayHaveRun = "s", true
								op.Found = journal.Found{MayHaveRun: mayHaveRun, FirstSentAt: at}
							case journal.StateCancelled:
								op.MayHaveRun = false
							case journal.StateUnknown:
								op.MayHaveRun = true
							case journal.StateCompleted:
								op.Tombstone = tombstone
								if !tombstone {
									op.Answer = &journal.Answer{Status: 200}
								}
							}
							if due && state == journal.StatePending {
								op.DueAt = at.Add(2 * time.Hour)
							}
							if tombstone && state == journal.StatePending {
								op.NotAfter = at.Add(24 * time.Hour) // by then it is too late
							}
							ev := machine.Event{Kind: kind, Ref: op.Ref, At: at.Add(time.Hour), Last: at, Session: "s", Claim: 2, Attempts: 1, Keep: time.Minute}
							if tombstone {
								ev.At = at.Add(48 * time.Hour)
							}
							if other {
								ev.Claim = 1
							}
							fingerprint := "f"
							if other {
								fingerprint = "g"
							}
							ev.Intent = &machine.Intent{Fingerprint: fingerprint, Key: "k", Terms: terms}
							ev.Answer = &journal.Answer{Status: 200}
							for _, resolution := range []journal.Resolution{journal.Executed, journal.NotExecuted, journal.SendAgain} {
								ev.Resolution, ev.Key = resolution, "k2"
								all = append(all, situation{op, live, ev})
							}
						}
					}
				}
			}
		}
	}
	return all
}
