package machine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Another operation has an object of the same id, in an account that is not known. A completed operation keeps its own,
// and evidence about that is recorded.
func TestEvidenceAboutTheObjectThatTheAnswerNamed(t *testing.T) {
	completed := inDoubt()
	completed.State, completed.Object, completed.Account = journal.StateCompleted, "payment pay_1", journal.OwnCredential
	completed.Answer = &journal.Answer{Status: 200}
	for object, want := range map[string]machine.Decision{"payment pay_1": machine.Recorded, "payment pay_2": machine.Ignored} {
		ev := seen(completed, journal.FindingReversed, object)
		ev.Account, ev.Taken = journal.OwnCredential, true
		got, decision := next(t, completed, false, ev)
		assert.Equal(t, want, decision, object)
		assert.Equal(t, want == machine.Recorded, len(got.Evidence) == 1)
		assert.Equal(t, "payment pay_1", got.Object)
		assert.Empty(t, got.Attention)
		assert.Zero(t, got.SecondEffects)
	}
}
