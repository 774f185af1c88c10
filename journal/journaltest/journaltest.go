// Package journaltest is the conformance suite of journals: whatever passes Run
// keeps the promises that journal.Journal states.
//
//	func TestConformance(t *testing.T) {
//		journaltest.Run(t, func(t *testing.T) journaltest.Harness {
//			j := mystore.New()
//			t.Cleanup(func() { j.Close() })
//			return journaltest.Harness{Journal: j}
//		})
//	}
package journaltest

import (
	"testing"

	"github.com/onceward/onceward/journal"
)

// Harness is one empty store under test. What a store can't do it leaves nil, and
// the tests that need it are skipped.
type Harness struct {
	// Journal is an open journal on a store without operations. The harness closes
	// it, as it does whatever Open and Reopen return, by t.Cleanup; the tests may
	// have closed it before.
	Journal journal.Journal

	// Seed is what the random histories are drawn from. The same seed draws the same histories.
	Seed uint64

	// Open returns another journal on the same store, as a second process has one.
	Open func(t *testing.T) journal.Journal

	// Reopen closes Journal, if it is still open, and returns a journal on the same
	// store, as the next process has one. A store that keeps nothing leaves it nil.
	Reopen func(t *testing.T) journal.Journal

	// Kill makes a session of Journal's die as by kill -9 of its process. A killed
	// session is no longer asked for anything but late answers.
	Kill func(t *testing.T, session journal.Session)

	// Crash returns a journal on what the store would hold if every process that has
	// it open were killed at this moment. Journal may go on, on the store as it was.
	Crash func(t *testing.T) journal.Journal

	// Restored closes Journal, if it is still open, makes the store look as if it
	// had been restored or copied, and returns a journal on it that was not adopted.
	// A store that can't tell leaves it nil.
	Restored func(t *testing.T) journal.Journal

	// Freeze keeps a session of Journal's from showing that it is alive, as a process that is stopped, or
	// whose machine is cut off, and returns once others take it for dead. thaw lets it go on.
	Freeze func(t *testing.T, session journal.Session) (thaw func())

	// Sever cuts all connections of all journals on the store, which may connect again.
	Sever func(t *testing.T)

	// Restart has the server of the store end at once, as by a crash, and start again. Journal stays
	// open.
	Restart func(t *testing.T)

	// Tx begins a transaction as the application does, by its own driver, where Journal is a
	// journal.Outbox. nil: by Outbox.BeginTx.
	Tx func(t *testing.T) journal.Tx

	// Upkeep does on an open journal some of what the store does on its own now and then, such as to
	// move what is settled to where it takes less room, or to read the store as another
	// program would. n says what, and is at least 0. Nothing that the journal says of its operations may change by it.
	Upkeep func(t *testing.T, j journal.Journal, n int)
}

// Run runs the suite, each test on a harness of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, suite := range []struct {
		name  string
		tests []test
	}{
		{"lifecycle", lifecycleTests},
		{"identity", identityTests},
		{"fidelity", fidelityTests},
		{"sessions", sessionTests},
		{"claim", claimTests},
		{"list", listTests},
		{"reap", reapTests},
		{"clock", clockTests},
		{"concurrency", concurrencyTests},
		{"crash", crashTests},
		{"restored", restoredTests},
		{"histories", historyTests},
		{"flows", flowTests},
		{"words", wordTests},
		{"second names", aliasTests},
		{"passing over", passingOverTests},
		{"jumps of the clock", jumpTests},
		{"reap beside traffic", reapBesideTests},
		{"reconciliation", reconcileTests},
		{"stats", statsTests},
		{"outbox", outboxTests},
		{"receipts", receiptTests},
		{"interruptions", interruptedTests},
	} {
		t.Run(suite.name, func(t *testing.T) {
			for _, test := range suite.tests {
				t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
			}
		})
	}
}

type test struct {
	name string
	run  func(t *testing.T, h Harness)
}
