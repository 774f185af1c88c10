package receipt

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/onceward/onceward/internal/machine"
)

var whats = [...]string{
	asks: "asks", hangsUp: "hangs up", reserves: "asks for the transaction", waits: "waits", writes: "writes its row, or makes its call",
	commits: "commits the transaction itself", isRolledBack: "has its transaction ended by the database", fails: "fails", finishes: "returns",
	refuses: "is refused", lands: "commits", fallsThrough: "commits, and that fails", inDoubt: "commits, and loses the connection", settles: "looks what became of the commit",
	gives: "answers", loses: "answers, and that is lost", dies: "is killed", diesAfterCommit: "is killed, and its commit has landed",
	orphanLands: "the commit of a lost connection lands", orphanEnds: "the transaction of a lost connection is rolled back",
	operatorLooks: "looks at the receipt and at the rows", operatorActs: "says what was to be seen", reaps: "reaps", dayPasses: "a day passes",
	leaps: "has a clock that leaps ahead", fallsBehind: "has a clock that falls behind by a day", isSetRight: "the clock is set right",
}

// text returns the step in words. swapped: the processes have changed places.
func (s step) text(swapped bool) string {
	text := whats[s.what]
	if swapped {
		switch s.what {
		case hangsUp, operatorLooks, operatorActs:
		case asks:
			s.at = 1 - s.at
		default:
			s.of = 1 - s.of
		}
	}
	switch s.what {
	case asks:
		text = fmt.Sprintf("caller %d asks process %c", s.of, 'A'+s.at)
	case hangsUp:
		text = fmt.Sprintf("caller %d hangs up", s.of)
	case orphanLands, orphanEnds, dayPasses, isSetRight:
	case operatorLooks, operatorActs:
		text = fmt.Sprintf("operator %d %s", s.of, text)
	default:
		text = fmt.Sprintf("process %c %s", 'A'+s.of, text)
	}
	if s.status != 0 {
		text += fmt.Sprintf(" %d %s", s.status, http.StatusText(int(s.status)))
	}
	if s.says != machine.Decision(0) {
		text += ": " + s.says.String()
	}
	return text
}

// trail is how each state was found.
type trail struct {
	steps   []step
	parents []uint32
	swapped []bool // the processes changed places after the step
}

func (w *trail) add(s step, parent uint32, swapped bool) {
	w.steps, w.parents, w.swapped = append(w.steps, s), append(w.parents, parent), append(w.swapped, swapped)
}

// history returns the steps that lead to a state, and further ones, with the processes as they were named first.
func (w *trail) history(to uint32, further ...step) (lines []string) {
	var way []uint32
	for ; to != 0; to = w.parents[to] {
		way = append(way, to)
	}
	swapped := false
	for _, n := range slices.Backward(way) {
		lines = append(lines, w.steps[n].text(swapped))
		swapped = swapped != w.swapped[n]
	}
	for _, s := range further {
		lines = append(lines, s.text(swapped))
	}
	return lines
}
