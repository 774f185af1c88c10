package shown_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// Evidence is shown as a sentence, even if its source or finding is not known.
func TestEvidenceIsASentence(t *testing.T) {
	for want, e := range map[string]journal.Evidence{
		"A look-up could not tell":                                              {Source: journal.SourceLook, Finding: journal.FindingInconclusive},
		"A webhook showed that it took effect, by key: charge ch_1":             {Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Basis: journal.BasisKey, Object: "charge ch_1"},
		"The program's own look-up found nothing; searched for a day, says ann": {Source: journal.SourceHook, Finding: journal.FindingAbsent, Why: "searched for a day", Actor: "ann"},
		"a newer source says: Finding(99)":                                      {Source: "a newer source", Finding: 99},
	} {
		assert.Equal(t, want, shown.Evidence(&e))
	}
}

// A flow that fails with one error again and again shows it once.
func TestFailuresInARowAreOne(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := &journal.Flow{Cause: "no stock", History: []journal.FlowFailure{{At: at, Error: "no stock"}, {At: at.Add(1), Error: "no stock"}, {At: at.Add(2), Error: "declined"}, {At: at.Add(3), Error: "no stock"}}}
	all := shown.Failures(f)
	assert.Equal(t, []shown.Failure{{Last: at.Add(1), Times: 2, Error: "no stock"}, {Last: at.Add(2), Times: 1, Error: "declined"}, {Last: at.Add(3), Times: 1, Error: "no stock"}}, all)
	assert.Equal(t, []string{"2 times in a row", "", ""}, []string{all[0].Count(), all[1].Count(), all[2].Count()})
	assert.Empty(t, shown.FlowCause(f))
	f.Cause = "waits for the bank"
	assert.Equal(t, f.Cause, shown.FlowCause(f))
}
