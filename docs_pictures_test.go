package onceward_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
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

// The pictures in the documents match the code.
func TestDocumentPictures(t *testing.T) {
	for _, picture := range []struct{ file, made string }{
		{"docs/states.svg", statesPicture(t)},
		{"docs/architecture.svg", partsPicture(t)},
		{"docs/reconciliation.svg", findingPicture(t)},
	} {
		t.Run(picture.file, func(t *testing.T) {
			if *update {
				require.NoError(t, os.WriteFile(picture.file, []byte(picture.made), 0o644))
				return
			}
			stands, err := os.ReadFile(picture.file)
			require.NoError(t, err)
			assert.True(t, picture.made == string(stands), "drawn anew by: go generate .")
		})
	}
}

// box is a place in a picture, given by its middle.
type box struct {
	x, y, width, height float64
	text                []string // the first line is the name
}

// toward returns the point where a line from the box's middle to x, y leaves the box.
func (b box) toward(x, y float64) (float64, float64) {
	dx, dy := x-b.x, y-b.y
	scale := math.Min(b.width/2/math.Max(math.Abs(dx), 1e-9), b.height/2/math.Max(math.Abs(dy), 1e-9))
	return b.x + dx*scale, b.y + dy*scale
}

// drawing is an unfinished SVG. Arrows are drawn below boxes.
type drawing struct{ arrows, labels, boxes strings.Builder }

// arrow draws a curve with a label from one box to another. bend moves it to the left.
func (d *drawing) arrow(from, to box, bend float64, label string) {
	length := math.Hypot(to.x-from.x, to.y-from.y)
	overX := (from.x+to.x)/2 + (to.y-from.y)/length*bend*2
	overY := (from.y+to.y)/2 - (to.x-from.x)/length*bend*2
	x1, y1 := from.toward(overX, overY)
	x2, y2 := to.toward(overX, overY)
	fmt.Fprintf(&d.arrows, `<path d="M%.0f %.0fQ%.0f %.0f %.0f %.0f" fill="none" stroke="#667" marker-end="url(#head)"/>`+"\n", x1, y1, overX, overY, x2, y2)
	if label != "" {
		fmt.Fprintf(&d.labels, `<text x="%.0f" y="%.0f" font-size="12" fill="#334" stroke="white" stroke-width="4" paint-order="stroke">%s</text>`+"\n",
			(x1+2*overX+x2)/4, (y1+2*overY+y2)/4+4, label)
	}
}

func (d *drawing) box(b box, fill string) {
	fmt.Fprintf(&d.boxes, `<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="8" fill="%s" stroke="#334"/>`+"\n",
		b.x-b.width/2, b.y-b.height/2, b.width, b.height, fill)
	for i, line := range b.text {
		style := ` font-weight="bold"`
		if i > 0 {
			style = ` font-size="11"`
		}
		fmt.Fprintf(&d.boxes, `<text x="%.0f" y="%.0f"%s>%s</text>`+"\n", b.x, b.y+5+16*(float64(i)-float64(len(b.text)-1)/2), style, line)
	}
}

func (d *drawing) String(width, height int, title string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14" text-anchor="middle">
<title>%s</title>
<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>
<rect width="100%%" height="100%%" fill="white"/>
`, width, height, title) + d.arrows.String() + d.boxes.String() + d.labels.String() + "</svg>\n"
}

// statesPicture draws the state changes of Next. It is the table of transitions without the events that change nothing.
func statesPicture(t *testing.T) string {
	t.Helper()
	const tombstone = "tombstone"
	at := map[string]box{
		journal.StateAbsent.String():    {90, 290, 110, 44, []string{"absent"}},
		journal.StateInFlight.String():  {305, 290, 110, 44, []string{"in_flight"}},
		journal.StatePending.String():   {620, 70, 110, 44, []string{"pending"}},
		journal.StateUnknown.String():   {910, 290, 110, 44, []string{"unknown"}},
		journal.StateCompleted.String(): {620, 520, 110, 44, []string{"completed"}},
		journal.StateCancelled.String(): {220, 520, 110, 44, []string{"cancelled"}},
		tombstone:                       {910, 520, 110, 44, []string{"completed", "(tombstone)"}},
	}
	var d drawing
	for _, from := range append([]journal.State{journal.StateAbsent}, journal.States...) {
		var ways []string
		events := map[string][]string{}
		for _, kind := range []machine.EventKind{machine.EventBegin, machine.EventEnqueue, machine.EventClaim, machine.EventComplete, machine.EventPark,
			machine.EventDoubt, machine.EventCancel, machine.EventResolve, machine.EventDeliver, machine.EventReap} {
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
			require.Contains(t, at, to)
			d.arrow(at[from.String()], at[to], 22, strings.Join(events[to], ", "))
		}
		d.box(at[from.String()], "#eef2fa")
	}
	d.box(at[tombstone], "#f4f4f4")
	return d.String(1010, 590, "The states of an operation, and the events that lead from one to another")
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
	dead, proven, completed := unknown, unknown, unknown
	dead.Attention, dead.LookAt = "given up", time.Time{}
	proven.Evidence = []journal.Evidence{{At: now.Add(-2 * time.Hour), Source: journal.SourceLook, Finding: journal.FindingAbsent}}
	completed.State, completed.Object, completed.Answer = journal.StateCompleted, "payment 1", &journal.Answer{Status: 200}
	absence := &machine.Absence{Began: now, Whole: true, ByRequest: true, Consistent: true, Handling: time.Minute, Account: "acct", Control: now}
	place := func(op journal.Operation) string {
		switch {
		case op.State == journal.StateUnknown && op.Attention != "":
			return "dead"
		case op.State == journal.StateUnknown:
			return "looked for"
		case op.State == journal.StateCompleted && op.Attention != "":
			return "contradicted"
		}
		return op.State.String()
	}
	at := map[string]box{
		"looked for":   {140, 150, 150, 60, []string{"unknown", "looked for"}},
		"completed":    {560, 60, 150, 60, []string{"completed", "found"}},
		"cancelled":    {560, 250, 150, 60, []string{"cancelled", "proven absent"}},
		"dead":         {140, 350, 150, 60, []string{"unknown", "needs attention"}},
		"contradicted": {860, 150, 150, 60, []string{"completed", "needs attention"}},
	}
	froms := []struct {
		name string
		ops  []journal.Operation
	}{{"looked for", []journal.Operation{unknown, proven}}, {"dead", []journal.Operation{dead}}, {"completed", []journal.Operation{completed}}}
	steps := []struct {
		label string
		event machine.Event
	}{
		{"took effect", machine.Event{Kind: machine.EventEvidence, Object: "payment 2", Evidence: &journal.Evidence{Finding: journal.FindingTookEffect, Basis: journal.BasisKey}}},
		{"refused", machine.Event{Kind: machine.EventEvidence, Object: "payment 2", Evidence: &journal.Evidence{Finding: journal.FindingRefused, Basis: journal.BasisKey}}},
		{"absence proven twice", machine.Event{Kind: machine.EventEvidence, Evidence: &journal.Evidence{Finding: journal.FindingAbsent, Source: journal.SourceLook}, Absence: absence}},
		{"given up", machine.Event{Kind: machine.EventEvidence, Evidence: &journal.Evidence{Finding: journal.FindingInconclusive}, Attention: "given up"}},
		{"hint", machine.Event{Kind: machine.EventHint}},
	}
	var d drawing
	for _, from := range froms {
		var ways []string
		labels := map[string][]string{}
		for _, op := range from.ops {
			for _, s := range steps {
				ev := s.event
				ev.Ref, ev.At, ev.Last, ev.Claim, ev.Account = op.Ref, now, now, op.Claim, "acct"
				after, _, err := machine.Next(op, false, ev)
				require.NoError(t, err)
				if to := place(after); to != from.name && !slices.Contains(labels[to], s.label) {
					if len(labels[to]) == 0 {
						ways = append(ways, to)
					}
					labels[to] = append(labels[to], s.label)
				}
			}
		}
		for _, to := range ways {
			require.Contains(t, at, to)
			d.arrow(at[from.name], at[to], 18, strings.Join(labels[to], ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		d.box(at[name], "#eef2fa")
	}
	return d.String(980, 420, "What an unknown operation becomes by evidence")
}

// parts are the boxes of the picture of the architecture, from top to bottom, each with its folders. Leaf packages,
// commands and tests are in no box.
var parts = []struct {
	box     box
	folders []string
}{
	{box{360, 50, 460, 60, []string{"flow, server, consume", "flows of steps; endpoints and messages that take effect once"}}, []string{"flow", "server", "consume"}},
	{box{360, 140, 460, 60, []string{"onceward", "the names that users meet: client, operations, errors, hooks"}}, []string{"."}},
	{box{360, 230, 460, 60, []string{"internal/background", "work that no caller waits for: claims, look-ups, deliveries"}}, []string{"internal/background"}},
	{box{360, 320, 460, 60, []string{"internal/engine", "the way of a request, from its operation to its answer"}}, []string{"internal/engine"}},
	{box{360, 410, 460, 60, []string{"internal/reconcile, delivery", "evidence about unknown operations; who gets an outcome"}}, []string{"internal/reconcile", "internal/delivery"}},
	{box{360, 500, 460, 60, []string{"internal/core, wire, throttle, naming", "shared state; requests as bytes; limits; names and keys"}},
		[]string{"internal/core", "internal/wire", "internal/throttle", "internal/naming", "internal/seam"}},
	{box{185, 610, 330, 60, []string{"providers", "contracts as tables, and the code that reads them"}}, []string{"providers", "internal/tables", "internal/lookup"}},
	{box{535, 610, 330, 60, []string{"journal", "state machine, resend rule, stores"}}, []string{"internal/machine", "journal", "journal/sqlite", "journal/postgres", "journal/memory"}},
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
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				rest, ours := strings.CutPrefix(imported, module)
				to, drawn := part[path.Clean("./"+strings.TrimPrefix(rest, "/"))]
				if !ours || !drawn || to == from {
					continue
				}
				assert.Greater(t, parts[to].box.y, parts[from].box.y, "%s imports %s", file, imported)
				imports[from][to] = true
			}
		}
	}
	reaches := make([]map[int]bool, len(parts)) // by two arrows or more
	var d drawing
	for from := len(parts) - 1; from >= 0; from-- {
		reaches[from] = map[int]bool{}
		for to := range imports[from] {
			maps.Copy(reaches[from], imports[to])
			maps.Copy(reaches[from], reaches[to])
		}
		for to := range parts {
			if imports[from][to] && !reaches[from][to] {
				d.arrow(parts[from].box, parts[to].box, 0, "")
			}
		}
		d.box(parts[from].box, "#eef2fa")
	}
	return d.String(720, 660, "The parts of the library, and what each imports")
}
