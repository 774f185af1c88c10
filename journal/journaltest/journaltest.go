// Package journaltest is the journals' conformance suite. A store that passes Run keeps the promises of
// machine.Store.
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

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Harness is one empty store under test. A field without the store's support is nil, and the field's tests are skipped.
type Harness struct {
	// Journal is an open journal on a store without operations. The harness closes Journal, and the journals from Open
	// and Reopen, by t.Cleanup. The tests may have closed Journal before.
	Journal machine.Store

	// Seed seeds the random histories. The same seed draws the same histories.
	Seed uint64

	// Open returns another journal on the same store, as in a second process.
	Open func(t *testing.T) machine.Store

	// Reopen closes an open Journal, and returns a journal on the same store, as in the next process. Nil: the store keeps
	// nothing.
	Reopen func(t *testing.T) machine.Store

	// Kill ends one of Journal's sessions like a kill -9 to the process. The tests then send only late answers there.
	Kill func(t *testing.T, session machine.Session)

	// Crash returns a journal on a copy of the store, as if every process with the store were killed at this moment.
	// Journal may go on, on the original store.
	Crash func(t *testing.T) machine.Store

	// Restored closes an open Journal, makes the store look restored or copied, and returns a journal there before
	// adoption. Nil: the store can't detect this state.
	Restored func(t *testing.T) machine.Store

	// Freeze stops one of Journal's sessions from showing life, like a stopped process or a partitioned machine. Freeze
	// returns once others take the session for dead. thaw lets the session go on.
	Freeze func(t *testing.T, session machine.Session) (thaw func())

	// Sever cuts all connections of all journals on the store, which may connect again.
	Sever func(t *testing.T)

	// Restart ends the store's server at once, as by a crash, and starts it again. Journal stays open.
	Restart func(t *testing.T)

	// Tx begins a transaction by the application's own driver, if Journal is a machine.Outbox. Default:
	// Outbox.BeginTx.
	Tx func(t *testing.T) journal.Tx

	// Upkeep does some of the store's own maintenance on an open journal, such as moving settled operations, or reads
	// the store as another program would. n selects the work, and is at least 0. Upkeep changes nothing in the journal's
	// reports about operations.
	Upkeep func(t *testing.T, j machine.Store, n int)
	// ForgetsAhead says that the next process does not know about an earlier clock that was set back
	// (store.Clock.Ahead).
	ForgetsAhead bool
}

// Run runs the suite, each test on a separate harness.
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
		{"two processes", besideTests},
		{"crash", crashTests},
		{"restored", restoredTests},
		{"histories", historyTests},
		{"flows", flowTests},
		{"words", wordTests},
		{"declared", declaredTests},
		{"second names", aliasTests},
		{"passing over", passingOverTests},
		{"jumps of the clock", jumpTests},
		{"reap beside traffic", reapBesideTests},
		{"reconciliation", reconcileTests},
		{"stats", statsTests},
		{"hook", hookTests},
		{"outbox", outboxTests},
		{"receipts", receiptTests},
		{"bookmarks", bookmarkTests},
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
