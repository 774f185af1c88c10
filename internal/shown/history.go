package shown

import (
	"cmp"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// The parts of a sentence on evidence.
var (
	sources = map[string]string{
		journal.SourceLook: "A look-up", journal.SourceEvent: "A webhook", journal.SourceHook: "The program's own look-up",
	}
	findings = map[journal.Finding]string{
		journal.FindingInconclusive: "could not tell", journal.FindingAmbiguous: "showed more than one object that may be its own",
		journal.FindingAbsent: "found nothing", journal.FindingInProgress: "showed that the provider has not decided yet",
		journal.FindingRefused: "showed that it was refused", journal.FindingTookEffect: "showed that it took effect",
		journal.FindingReversed: "showed that it took effect and was taken back",
	}
)

// Evidence returns a sentence on one piece of an operation's evidence: the source, the finding, the mark that ties the
// finding to the operation, and the missing facts.
func Evidence(e *journal.Evidence) string {
	source, finding := cmp.Or(sources[e.Source], Text(e.Source)), cmp.Or(findings[e.Finding], "says: "+e.Finding.String())
	says := source + " " + finding
	if e.Basis != journal.BasisNone {
		says += ", by " + e.Basis.String()
	}
	if e.Object != "" {
		says += ": " + Text(e.Object)
	}
	if e.Why != "" {
		says += "; " + Text(e.Why)
	}
	if e.Target != "" {
		says += " (" + Text(e.Target) + ")"
	}
	if e.Actor != "" {
		says += ", says " + Text(e.Actor)
	}
	return says
}

// Failure is one error of a flow, and when it came in a row.
type Failure struct {
	Last  time.Time
	Times int
	Error string
}

// Count returns how often an entry came, if more than once.
func (f Failure) Count() string {
	if f.Times == 1 {
		return ""
	}
	return fmt.Sprintf("%d times in a row", f.Times)
}

// Failures returns a flow's failures, oldest first. Equal errors in a row are one.
func Failures(f *journal.Flow) (all []Failure) {
	for _, h := range f.History {
		if n := len(all) - 1; n >= 0 && all[n].Error == secret.Text(h.Error) {
			all[n].Last, all[n].Times = h.At, all[n].Times+1
			continue
		}
		all = append(all, Failure{h.At, 1, secret.Text(h.Error)})
	}
	return all
}

// FlowCause returns why the flow waits or is set aside, or "" if its latest failure says the same.
func FlowCause(f *journal.Flow) string {
	if n := len(f.History); n > 0 && f.History[n-1].Error == f.Cause {
		return ""
	}
	return f.Cause
}
