package docs_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// mermaid returns the Markdown block that GitHub draws as a diagram.
func mermaid(lines ...string) string {
	return "```mermaid\n" + strings.Join(lines, "\n    ") + "\n```\n"
}

// statesPicture draws Next's state changes. It is the transition table without the events that change nothing.
func statesPicture(t *testing.T) string {
	t.Helper()
	const tombstone = "tombstone"
	lines := []string{"stateDiagram-v2", `state "completed (tombstone)" as ` + tombstone}
	for _, from := range append([]journal.State{journal.StateAbsent}, journal.States...) {
		var ways []string
		events := map[string][]string{}
		for _, kind := range []machine.EventKind{machine.EventBegin, machine.EventEnqueue, machine.EventClaim, machine.EventComplete, machine.EventPark,
			machine.EventMarkUnknown, machine.EventCancel, machine.EventResolve, machine.EventDeliver, machine.EventReap} {
			for _, now := range situations(from, kind) {
				after, decision, err := machine.Next(now.op, now.live, now.event)
				if err != nil || decision == machine.Ignored || decision == machine.Stale || now.op.Tombstone {
					continue
				}
				to := after.State.String()
				if after.Tombstone {
					to = tombstone
				}
				if to == from.String() {
					continue
				}
				if !slices.Contains(ways, to) {
					ways = append(ways, to)
				}
				if !slices.Contains(events[to], kind.String()) {
					events[to] = append(events[to], kind.String())
				}
			}
		}
		for _, to := range ways {
			lines = append(lines, fmt.Sprintf("%s --> %s: %s", from, to, strings.Join(events[to], ", ")))
		}
	}
	return mermaid(lines...)
}

// findingPicture draws how look-ups and webhooks settle an unknown operation.
func findingPicture(t *testing.T) string {
	t.Helper()
	began := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	now := began.Add(12 * time.Hour)
	unknown := journal.Operation{
		Ref: journal.Ref{ID: "a"}, State: journal.StateUnknown, Claim: 1, Attempts: 1, Key: "k", Account: "acct", MayHaveRun: true,
		CreatedAt: began, FirstSentAt: began, LastEndedAt: began, SettledAt: began, UpdatedAt: began, LookAt: now, Looks: 1,
		Terms: journal.Terms{Handling: time.Minute},
	}
	dead, completed := unknown, unknown
	dead.Attention, dead.LookAt = "given up", time.Time{}
	completed.State, completed.Object, completed.Answer = journal.StateCompleted, "payment 1", &journal.Answer{Status: 200}
	absence := &machine.Absence{Began: now, Handling: time.Minute}
	place := func(op journal.Operation) string {
		switch {
		case op.State == journal.StateUnknown && op.Attention != "":
			return "dead"
		case op.State == journal.StateUnknown:
			return "looked"
		case op.State == journal.StateCompleted && op.Attention != "":
			return "contradicted"
		}
		return op.State.String()
	}
	lines := []string{
		"stateDiagram-v2",
		`state "unknown, looked for" as looked`,
		`state "unknown, needs attention" as dead`,
		`state "completed, found" as completed`,
		`state "cancelled, not executed" as cancelled`,
		`state "completed, needs attention" as contradicted`,
	}
	froms := []struct {
		name string
		op   journal.Operation
	}{{"looked", unknown}, {"dead", dead}, {"completed", completed}}
	steps := []struct {
		label string
		event machine.Event
	}{
		{"took effect", machine.Event{Kind: machine.EventEvidence, Object: "payment 2", Evidence: &journal.Evidence{Finding: journal.FindingTookEffect, Basis: journal.BasisKey}}},
		{"refused", machine.Event{Kind: machine.EventEvidence, Object: "payment 2", Evidence: &journal.Evidence{Finding: journal.FindingRefused, Basis: journal.BasisKey}}},
		{"absent by Reconcile.Lookup", machine.Event{Kind: machine.EventEvidence, Evidence: &journal.Evidence{Finding: journal.FindingAbsent, Source: journal.SourceHook}, Absence: absence}},
		{"given up", machine.Event{Kind: machine.EventEvidence, Evidence: &journal.Evidence{Finding: journal.FindingInconclusive}, Attention: "given up"}},
		{"hint", machine.Event{Kind: machine.EventHint}},
	}
	for _, from := range froms {
		var ways []string
		labels := map[string][]string{}
		for _, s := range steps {
			ev := s.event
			ev.Ref, ev.At, ev.Last, ev.Claim, ev.Account = from.op.Ref, now, now, from.op.Claim, "acct"
			after, _, err := machine.Next(from.op, false, ev)
			require.NoError(t, err)
			if to := place(after); to != from.name {
				if len(labels[to]) == 0 {
					ways = append(ways, to)
				}
				labels[to] = append(labels[to], s.label)
			}
		}
		for _, to := range ways {
			lines = append(lines, fmt.Sprintf("%s --> %s: %s", from.name, to, strings.Join(labels[to], ", ")))
		}
	}
	return mermaid(lines...)
}

// parts are the boxes in the architecture's picture, each with its folders. Imports run from a level to a greater
// one. Leaf packages, commands and tests are in no box.
var parts = []struct {
	level      int
	name, text string
	folders    []string
}{
	{1, "flow, server, consume", "flows of steps; endpoints and messages that take effect once", []string{"flow", "server", "consume"}},
	{2, "onceward", "the names that users meet: client, operations, errors, hooks", []string{"."}},
	{3, "internal/background", "work that no caller waits for: claims, look-ups, deliveries", []string{"internal/background"}},
	{4, "internal/engine", "the way of a request, from its operation to its answer", []string{"internal/engine"}},
	{5, "internal/engine/call", "identify, read, name, sign, ask the journal", []string{"internal/engine/call"}},
	{5, "internal/engine/run", "attempt, judge, record, answer", []string{"internal/engine/run"}},
	{6, "internal/engine/exchange", "request, answer, failure", []string{"internal/engine/exchange"}},
	{7, "internal/reconcile, delivery", "evidence about unknown operations; who gets an outcome", []string{"internal/reconcile", "internal/delivery"}},
	{8, "internal/core, wire, throttle, naming", "shared state; requests as bytes; limits; names and keys",
		[]string{"internal/core", "internal/wire", "internal/throttle", "internal/naming", "internal/seam"}},
	{9, "providers", "contracts as tables, and the code that reads them", []string{"providers", "internal/tables", "internal/lookup"}},
	{9, "journal", "state machine, resend rule, stores", []string{"internal/machine", "journal", "journal/sqlite", "journal/postgres", "journal/memory"}},
}

// partsPicture draws the imports between parts. An arrow that follows from others is left out. Every import runs down.
func partsPicture(t *testing.T) string {
	t.Helper()
	const module = "github.com/onceward/onceward"
	part := map[string]int{}
	for i, p := range parts {
		for _, folder := range p.folders {
			part[folder] = i
		}
	}
	imports := make([]map[int]bool, len(parts))
	for folder, from := range part {
		if imports[from] == nil {
			imports[from] = map[int]bool{}
		}
		for _, file := range goFiles(t, folder) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, content(t, file), parser.ImportsOnly)
			require.NoError(t, err)
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				rest, ours := strings.CutPrefix(imported, module)
				to, drawn := part[path.Clean("./"+strings.TrimPrefix(rest, "/"))]
				if !ours || !drawn || to == from {
					continue
				}
				assert.Greater(t, parts[to].level, parts[from].level, "%s imports %s", file, imported)
				imports[from][to] = true
			}
		}
	}
	reaches := make([]map[int]bool, len(parts)) // by two arrows or more
	arrows := make([]string, len(parts))
	for from := len(parts) - 1; from >= 0; from-- {
		reaches[from] = map[int]bool{}
		for to := range imports[from] {
			maps.Copy(reaches[from], imports[to])
			maps.Copy(reaches[from], reaches[to])
		}
		for to := range parts {
			if imports[from][to] && !reaches[from][to] {
				arrows[from] += fmt.Sprintf("\n    part%d --> part%d", from, to)
			}
		}
	}
	lines := []string{"flowchart TB"}
	for i, p := range parts {
		lines = append(lines, fmt.Sprintf(`part%d["<b>%s</b><br>%s"]%s`, i, p.name, p.text, arrows[i]))
	}
	return mermaid(lines...)
}
