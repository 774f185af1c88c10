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

	"github.com/onceward/onceward/journal"
)

// Pictures in the documents are what the code says.
func TestDocumentPictures(t *testing.T) {
	for _, picture := range []struct{ file, made string }{
		{"docs/states.svg", statesPicture(t)},
		{"docs/architecture.svg", roomsPicture(t)},
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

// box is a place in a picture, by its middle.
type box struct {
	x, y, width, height float64
	text                []string // the first line is the name
}

// toward is where a line from the box's middle to a point leaves the box.
func (b box) toward(x, y float64) (float64, float64) {
	dx, dy := x-b.x, y-b.y
	scale := math.Min(b.width/2/math.Max(math.Abs(dx), 1e-9), b.height/2/math.Max(math.Abs(dy), 1e-9))
	return b.x + dx*scale, b.y + dy*scale
}

// drawing is an SVG in the making. Arrows are drawn below boxes.
type drawing struct{ arrows, labels, boxes strings.Builder }

// arrow draws a curve from one box to another, bent to its left by so much, and a label
// on it.
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

// statesPicture draws the changes of state that Next makes: the table of transitions
// without the events that change nothing.
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
		for _, kind := range []journal.EventKind{journal.EventBegin, journal.EventEnqueue, journal.EventClaim, journal.EventComplete, journal.EventPark,
			journal.EventDoubt, journal.EventCancel, journal.EventResolve, journal.EventDeliver, journal.EventReap} {
			for _, now := range situations(from, kind) {
				after, decision, err := journal.Next(now.op, now.live, now.event)
				if err != nil || decision == journal.Ignored || decision == journal.Stale || now.op.Tombstone {
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

// findingPicture draws the ways of an unknown operation by look-ups and webhooks.
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
	absence := &journal.Absence{Began: now, Whole: true, ByRequest: true, Consistent: true, Handling: time.Minute, Account: "acct", Control: now}
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
		event journal.Event
	}{
		{"took effect", journal.Event{Kind: journal.EventEvidence, Object: "payment 2", Evidence: &journal.Evidence{Finding: journal.FindingTookEffect, Basis: journal.BasisKey}}},
		{"refused", journal.Event{Kind: journal.EventEvidence, Object: "payment 2", Evidence: &journal.Evidence{Finding: journal.FindingRefused, Basis: journal.BasisKey}}},
		{"absence proven twice", journal.Event{Kind: journal.EventEvidence, Evidence: &journal.Evidence{Finding: journal.FindingAbsent, Source: journal.SourceLook}, Absence: absence}},
		{"given up", journal.Event{Kind: journal.EventEvidence, Evidence: &journal.Evidence{Finding: journal.FindingInconclusive}, Attention: "given up"}},
		{"hint", journal.Event{Kind: journal.EventHint}},
	}
	var d drawing
	for _, from := range froms {
		var ways []string
		labels := map[string][]string{}
		for _, op := range from.ops {
			for _, s := range steps {
				ev := s.event
				ev.Ref, ev.At, ev.Last, ev.Claim, ev.Account = op.Ref, now, now, op.Claim, "acct"
				after, _, err := journal.Next(op, false, ev)
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

// roomsPicture draws the packages and what they import. A package without a place of its
// own stands in that of the folder above, or is not drawn. Of those for tests no imports are drawn.
func roomsPicture(t *testing.T) string {
	t.Helper()
	at := map[string]box{
		".":                      {370, 60, 140, 52, []string{"onceward", "the client"}},
		"backoff":                {380, 240, 110, 52, []string{"backoff", "delays, budgets"}},
		"flow":                   {760, 60, 140, 52, []string{"flow", "functions of steps"}},
		"internal/core":          {375, 150, 120, 40, []string{"internal/core"}},
		"internal/fault":         {665, 150, 120, 40, []string{"internal/fault"}},
		"internal/fingerprint":   {140, 420, 160, 52, []string{"internal/fingerprint", "what a request means"}},
		"internal/memory":        {625, 420, 150, 52, []string{"internal/memory", "what a key is known for"}},
		"internal/lookup":        {240, 330, 130, 40, []string{"internal/lookup"}},
		"internal/template":      {90, 330, 140, 40, []string{"internal/template"}},
		"internal/naming":        {90, 150, 130, 40, []string{"internal/naming"}},
		"internal/reconcile":     {520, 150, 145, 40, []string{"internal/reconcile"}},
		"internal/retry":         {560, 240, 130, 52, []string{"internal/retry", "when to try again"}},
		"internal/seam":          {740, 240, 110, 52, []string{"internal/seam", "what flows need"}},
		"internal/secret":        {300, 420, 140, 52, []string{"internal/secret", "what is never written"}},
		"internal/shown":         {1085, 330, 140, 40, []string{"internal/shown"}},
		"internal/sessionfile":   {925, 330, 145, 40, []string{"internal/sessionfile"}},
		"internal/status":        {460, 420, 140, 52, []string{"internal/status", "status codes by RFC"}},
		"internal/throttle":      {400, 330, 145, 40, []string{"internal/throttle"}},
		"internal/tables":        {240, 240, 130, 52, []string{"internal/tables", "reads contracts"}},
		"internal/wire":          {235, 150, 120, 40, []string{"internal/wire"}},
		"journal":                {900, 420, 170, 52, []string{"journal", "state machine, resend rule"}},
		"journal/memory":         {1075, 240, 140, 52, []string{"journal/memory", "the store for tests"}},
		"journal/sqlite":         {1000, 60, 140, 52, []string{"journal/sqlite", "the store in a file"}},
		"otelonceward":           {565, 60, 140, 52, []string{"otelonceward", "spans and metrics"}},
		"providers":              {90, 240, 140, 52, []string{"providers", "contracts as tables"}},
		"providers/providertest": {215, 60, 130, 52, []string{"providertest", "a provider in a box"}},
		"webhook":                {75, 60, 110, 52, []string{"webhook", "signatures"}},
	}
	forTests := map[string]box{
		"proof/clauses":       {1060, 540, 180, 52, []string{"proof/clauses", "the rule, less a clause"}},
		"proof/model":         {100, 540, 180, 52, []string{"proof/model", "every history, searched"}},
		"internal/oncetest":   {484, 540, 180, 52, []string{"internal/oncetest", "words of the tests"}},
		"internal/pgproxy":    {676, 600, 180, 52, []string{"internal/pgproxy", "PostgreSQL, cut off"}},
		"internal/planted":    {868, 600, 180, 52, []string{"internal/planted", "one of each, to be shown"}},
		"internal/severed":    {676, 540, 180, 52, []string{"internal/severed", "a journal that is cut off"}},
		"proof/sim":           {292, 540, 180, 52, []string{"proof/sim", "simulated lives"}},
		"journal/journaltest": {868, 540, 180, 52, []string{"journal/journaltest", "what every store promises"}},
	}
	room := func(folder string) string {
		for ; folder != "."; folder = path.Dir(folder) {
			if _, ok := at[folder]; ok {
				break
			}
			if _, ok := forTests[folder]; ok {
				break
			}
		}
		return folder
	}
	const module = "github.com/onceward/onceward"
	imports := map[string][]string{}
	for _, folder := range goFolders(t) {
		if top, _, _ := strings.Cut(folder, "/"); slices.Contains([]string{".ci", "examples", "benchmarks", "cmd", "console"}, top) || folder == "internal/vendorsdk" {
			continue
		}
		from := room(folder)
		if from == "." && folder != "." {
			continue
		}
		for _, file := range goFiles(t, folder) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				if rest, ours := strings.CutPrefix(imported, module); ours {
					imports[from] = append(imports[from], room(path.Clean("./"+strings.TrimPrefix(rest, "/"))))
				}
			}
		}
	}
	var d drawing
	for _, from := range slices.Sorted(maps.Keys(at)) {
		for _, to := range slices.Sorted(maps.Keys(at)) {
			if to != from && slices.Contains(imports[from], to) {
				d.arrow(at[from], at[to], 0, "")
			}
		}
		d.box(at[from], "#eef2fa")
	}
	for _, name := range slices.Sorted(maps.Keys(forTests)) {
		d.box(forTests[name], "#f4f4f4")
	}
	return d.String(1160, 650, "The packages, and what each imports. The lowest rows are for tests")
}
