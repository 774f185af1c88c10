package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// event is one step's event.
type event struct {
	kind     stepKind
	client   int // or -1
	arg      int
	says     verdict
	cut      bool
	effect   bool
	refused  bool
	other    bool // with the key in another place
	decision machine.Decision
	end      machine.EventKind
}

type stepKind uint8

const (
	askStep stepKind = iota
	failBeginStep
	uncertainBeginStep
	claimStep
	sendStep
	refusedLocallyStep
	notSentStep
	interruptedStep
	outOfTimeStep
	lostClaimStep
	tooLateStep
	cancelStep
	timeoutStep
	hearStep
	recordStep
	failRecordStep
	undoStep
	deliverStep
	crashStep
	pauseStep
	wakeStep
	loseSessionStep
	seeLossStep
	loseStep
	arriveStep
	replyStep
	executeStep
	resolveStep
	reapStep
	backupStep
	restoreStep
	forgetStep
	restStep
	tickStep
	aheadStep
	backStep
	confirmStep
	deployStep
	lookStep
	heardStep
	foundStep
	enqueueStep
	goneBackStep
)

// The columns of a history.
const (
	clientA = iota
	clientB
	network
	provider
	journalColumn
	clockColumn
	columns
)

var columnNames = [columns]string{"client A", "client B", "network", "provider", "journal", "clock"}

// says is the event's text and where it stands.
func (e *event) text() (column int, text string) {
	by := "A"
	if e.client == 1 {
		by = "B"
	}
	if e.client < 0 {
		by = "an earlier one"
	}
	switch e.kind {
	case askStep, failBeginStep, uncertainBeginStep:
		what := "asks"
		if e.arg&1 == 1 {
			what = "asks for another request"
		}
		if e.arg >= 2 {
			what += " under other terms"
		}
		if e.other {
			what += " with its key elsewhere"
		}
		switch e.kind {
		case failBeginStep:
			return e.client, what + "; the journal fails, nothing is recorded"
		case uncertainBeginStep:
			return e.client, what + "; recorded, but the journal reports a failure"
		}
		return e.client, what + ": " + e.decision.String()
	case claimStep:
		return e.client, "resumes: " + e.decision.String()
	case sendStep:
		return e.client, fmt.Sprintf("sends key %d", e.arg)
	case refusedLocallyStep:
		return e.client, "an attempt is refused locally"
	case notSentStep:
		return e.client, "no connection: nothing is sent"
	case interruptedStep:
		return e.client, "stops, interrupted"
	case outOfTimeStep:
		return e.client, "stops, out of time"
	case lostClaimStep:
		return e.client, "stops, the claim is lost"
	case tooLateStep:
		return e.client, "stops, the rule forbids it by now"
	case cancelStep:
		return e.client, "its context ends"
	case timeoutStep:
		return e.client, "the attempt times out"
	case hearStep:
		if e.cut {
			return e.client, "gets " + verdictNames[e.says] + ", body cut"
		}
		return e.client, "gets " + verdictNames[e.says]
	case recordStep:
		if e.refused {
			return e.client, e.end.String() + ": refused"
		}
		return e.client, e.end.String() + ": " + e.decision.String()
	case failRecordStep:
		return e.client, e.end.String() + ": the journal fails; it is kept in memory"
	case undoStep:
		return e.client, "cancels its Begin: " + e.decision.String()
	case deliverStep:
		return e.client, "delivers: " + e.decision.String()
	case crashStep:
		return e.client, "crashes"
	case pauseStep:
		return e.client, "is paused"
	case wakeStep:
		return e.client, "goes on"
	case loseSessionStep:
		return e.client, "its session is lost, unseen"
	case seeLossStep:
		return e.client, "sees that its session is lost"
	case loseStep:
		if e.arg == int(answered) {
			return network, "the answer to " + by + " is lost"
		}
		return network, "the request of " + by + " is lost"
	case arriveStep:
		return network, "the request of " + by + " arrives"
	case replyStep:
		return provider, "answers " + by + ": " + verdictNames[e.says]
	case executeStep:
		if e.effect {
			return provider, "executes the request of " + by + ": effect, " + verdictNames[e.says]
		}
		return provider, "executes the request of " + by + ": no effect, " + verdictNames[e.says]
	case resolveStep:
		return journalColumn, "somebody says: " + [...]string{"", "executed", "not executed", "send again", "hold it", "let it go", "withdraw it", "reinstate it"}[e.arg]
	case reapStep:
		return journalColumn, "reaped"
	case backupStep:
		return journalColumn, "backed up"
	case restoreStep:
		return journalColumn, "restored and adopted"
	case forgetStep:
		return provider, "forgets a key"
	case restStep:
		return clockColumn, "its rest passes"
	case tickStep:
		return clockColumn, "time passes"
	case aheadStep:
		return clockColumn, "steps ahead"
	case backStep:
		return clockColumn, "steps back"
	case confirmStep:
		return clockColumn, "has kept on, and is believed"
	case deployStep:
		return journalColumn, "the next release is deployed"
	case lookStep:
		return journalColumn, "somebody looks"
	case enqueueStep:
		return journalColumn, "enqueued: " + e.decision.String()
	case goneBackStep:
		return journalColumn, "goes back under those who live, and is adopted"
	case heardStep:
		return journalColumn, "an event says that it took effect: " + e.decision.String()
	case foundStep:
		return journalColumn, "the look says " + journal.Finding(e.arg).String() + ": " + e.decision.String()
	}
	return network, "?"
}

// History is a way from the beginning, as rows of a table.
type History struct{ rows [][columns]string }

// Len is the number of steps.
func (h History) Len() int { return len(h.rows) }

// String is the history as a table: a line for each step.
func (h History) String() string {
	widths := make([]int, columns)
	for c, name := range columnNames {
		widths[c] = len(name)
		for _, row := range h.rows {
			widths[c] = max(widths[c], len([]rune(row[c])))
		}
	}
	var b strings.Builder
	line := func(number string, cells [columns]string) {
		fmt.Fprintf(&b, "%4s", number)
		for c, cell := range cells {
			b.WriteString(" | " + cell + strings.Repeat(" ", widths[c]-len([]rune(cell))))
		}
		b.WriteString("\n")
	}
	line("step", columnNames)
	b.WriteString("-----")
	for _, w := range widths {
		b.WriteString("|" + strings.Repeat("-", w+2))
	}
	b.WriteString("\n")
	for i, row := range h.rows {
		line(fmt.Sprint(i+1), row)
	}
	return b.String()
}

// historyTo replays the way to a state.
func (x *explorer) historyTo(g *graph, n uint32) History {
	return x.replay(g, n, nil)
}

// history is the way to a state and one step more.
func (x *explorer) history(g *graph, n uint32, last event) History {
	return x.replay(g, n, &last)
}

// replay goes the way again with the clients' own names: where the search had them
// change places, the events do too.
func (x *explorer) replay(g *graph, n uint32, last *event) History {
	emit := x.emit
	defer func() { x.emit = emit }()
	var way []uint32
	for ; n != 0; n = g.parents[n] {
		way = append(way, n)
	}
	slices.Reverse(way)
	var h History
	s := x.initial()
	swapped, claims := false, 0
	to := func(want func(canonical *state, ev event) bool) {
		found := false
		from := s
		var next state
		var took event
		nextSwapped := swapped
		x.emit = func(after *state, ev event, _ facts) {
			if found {
				return
			}
			c := *after
			sw := x.canonical(&c)
			if want(&c, ev) {
				found, next, took = true, c, ev
				nextSwapped = swapped != sw
			}
		}
		x.successors(&from)
		if !found {
			panic("model: a history that can't be replayed")
		}
		if swapped && took.client >= 0 {
			took.client = 1 - took.client
		}
		if took.decision == machine.Execute {
			claims++
		}
		h.rows = append(h.rows, x.row(&s, &next, took, claims))
		s, swapped = next, nextSwapped
	}
	for _, n := range way {
		k := g.states[n]
		to(func(c *state, _ event) bool { return c.pack() == k })
	}
	if last != nil {
		to(func(_ *state, ev event) bool { return ev == *last })
	}
	return h
}

// row returns the row of an event and its changes. It shows the true numbers of claims.
func (x *explorer) row(before, after *state, ev event, claims int) [columns]string {
	var row [columns]string
	column, text := ev.text()
	row[column] = text
	show := x.op(after).show(claims)
	if show != x.op(before).show(claims) || column == journalColumn || ev.decision == machine.Execute {
		row[journalColumn] = strings.TrimPrefix(row[journalColumn]+": "+show, ": ")
	}
	if was, is := before.effects(), after.effects(); was != is && row[provider] == "" {
		row[provider] = fmt.Sprintf("%d effects", is)
	}
	return row
}

// show returns a record in short.
func (r *record) show(claim int) string {
	if r.State == journal.StateAbsent {
		return "no record"
	}
	parts := []string{r.State.String()}
	if r.State == journal.StateInFlight {
		parts = append(parts, fmt.Sprintf("claim %d", claim))
	}
	if r.Generation > 0 {
		parts = append(parts, fmt.Sprintf("generation %d", r.Generation))
	}
	if r.Tombstone {
		parts = append(parts, "tombstone")
	} else if r.Answer != noAnswer {
		parts = append(parts, r.Answer.String())
	}
	if r.State == journal.StatePending || r.State == journal.StateInFlight {
		ran := r.MayHaveRun
		if r.State == journal.StateInFlight {
			ran = r.FoundRun
		}
		if ran {
			parts = append(parts, "may have run")
		}
	}
	if r.WindowClosed {
		parts = append(parts, "window closed")
	}
	return strings.Join(parts, ", ")
}
