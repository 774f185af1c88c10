package receipt_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/proof/model/receipt"
)

// weakened are rules that change the receipt and the event before NextReceipt sees them. only limits the check to one
// invariant, if another one is broken earlier.
func weakened(change func(r *journal.Receipt, ev *machine.ReceiptEvent), only ...int) receipt.Rules {
	rules := receipt.Real()
	for _, rules.Only = range only {
	}
	rules.NextReceipt = func(r journal.Receipt, ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
		change(&r, &ev)
		return machine.NextReceipt(r, ev)
	}
	return rules
}

// altered are rules that change the result of NextReceipt.
func altered(change func(before journal.Receipt, ev machine.ReceiptEvent, result *machine.ReceiptResult)) receipt.Rules {
	rules := receipt.Real()
	rules.NextReceipt = func(r journal.Receipt, ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
		result, err := machine.NextReceipt(r, ev)
		change(r, ev, &result)
		return result, err
	}
	return rules
}

// without are rules without one of the service's checks.
func without(check func(*receipt.Rules)) receipt.Rules {
	rules := receipt.Real()
	check(&rules)
	return rules
}

func keeping(kept func(status int, touched bool) bool) receipt.Rules {
	return without(func(r *receipt.Rules) { r.Kept = kept })
}

func world(t *testing.T, name string) receipt.Config {
	t.Helper()
	for _, cfg := range receipt.Worlds {
		if cfg.Name == name {
			return cfg
		}
	}
	require.Fail(t, "there is no such world", name)
	return receipt.Config{}
}

// Every invariant is broken by a service or by rules that deserve it. A model that can't fail proves nothing.
func TestInvariantsAreBroken(t *testing.T) {
	t.Parallel()
	anyone := func(*journal.Receipt) (bool, error) { return true, nil }
	for _, tc := range []struct {
		invariant int
		world     string
		what      string
		rules     receipt.Rules
	}{
		{1, "one database", "transactions do not exclude each other", without(func(r *receipt.Rules) { r.Unlocked, r.Only = true, 1 })},
		{2, "the handler commits", "the answer is recorded at the end, without a reservation", without(func(r *receipt.Rules) { r.Late = true })},
		{2, "the database rolls back", "the service does not look whether the transaction is open", without(func(r *receipt.Rules) { r.Trustful = true })},
		{3, "one file", "the answer leaves before the commit", without(func(r *receipt.Rules) { r.Hasty = true })},
		{3, "repeatable", "a second answer replaces the first", weakened(func(r *journal.Receipt, ev *machine.ReceiptEvent) {
			if ev.Kind == machine.ReceiptRecord {
				*r = journal.Receipt{}
			}
		}, 3)},
		{3, "one file", "a decline goes out, and is not recorded", keeping(func(status int, touched bool) bool {
			return status != 402 && receipts.Kept(status, touched)
		})},
		{3, "days pass, clocks are wrong", "an answer that was reaped is given again", altered(func(before journal.Receipt, ev machine.ReceiptEvent, result *machine.ReceiptResult) {
			if ev.Kind == machine.ReceiptReserve && result.Decision == machine.Gone && ev.At.Before(before.ExpiresAt) {
				result.Decision = machine.Replay
			}
		})},
		{4, "another request", "the request is not compared with the receipt", weakened(func(_ *journal.Receipt, ev *machine.ReceiptEvent) { ev.Same = anyone })},
		{4, "one file", "no request is the recorded one", weakened(func(_ *journal.Receipt, ev *machine.ReceiptEvent) {
			ev.Same = func(*journal.Receipt) (bool, error) { return false, nil }
		})},
		{5, "one file", "a recorded answer does not keep the handler from running", weakened(func(r *journal.Receipt, ev *machine.ReceiptEvent) {
			if ev.Kind == machine.ReceiptReserve && r.State == journal.ReceiptCompleted {
				*r = journal.Receipt{}
			}
		})},
		{5, "days pass, clocks are wrong", "a clock that leaps is believed", weakened(func(_ *journal.Receipt, ev *machine.ReceiptEvent) {
			if ev.Kind == machine.ReceiptReserve {
				ev.Unconfirmed = time.Time{}
			}
		})},
		{6, "days pass", "an answer is reaped before its time", weakened(func(_ *journal.Receipt, ev *machine.ReceiptEvent) {
			if ev.Kind == machine.ReceiptReap {
				ev.At = ev.At.Add(24 * time.Hour)
			}
		})},
		{6, "days pass", "a key is refused before its time", weakened(func(r *journal.Receipt, ev *machine.ReceiptEvent) {
			if ev.Kind == machine.ReceiptReserve {
				r.ExpiresAt = r.CreatedAt
			}
		})},
		{6, "days pass, the handler commits", "what is reserved is reaped", altered(func(before journal.Receipt, ev machine.ReceiptEvent, result *machine.ReceiptResult) {
			if ev.Kind == machine.ReceiptReap && before.State == journal.ReceiptReserved {
				*result = machine.ReceiptResult{Decision: machine.Recorded}
			}
		})},
		{7, "one database", "a commit in doubt counts as one that failed", without(func(r *receipt.Rules) { r.Hopeful = true })},
		{8, "the handler commits", "a committed reservation is taken for nothing", weakened(func(r *journal.Receipt, ev *machine.ReceiptEvent) {
			if ev.Kind == machine.ReceiptReserve && r.State == journal.ReceiptReserved {
				*r = journal.Receipt{}
			}
		}, 8)},
		{2, "the handler commits", "an operator's word counts for a later reservation", weakened(func(r *journal.Receipt, ev *machine.ReceiptEvent) {
			if ev.Kind == machine.ReceiptResolve {
				ev.Handle = r.Handle
			}
		})},
		{9, "one file", "a receipt says nothing of the request", altered(func(_ journal.Receipt, ev machine.ReceiptEvent, result *machine.ReceiptResult) {
			if ev.Kind == machine.ReceiptComplete {
				result.Receipt.Fingerprint = ""
			}
		})},
		{10, "one file", "a failure is recorded", keeping(func(int, bool) bool { return true })},
		{10, "no transaction", "a refusal without an effect is recorded", keeping(func(status int, _ bool) bool { return status < 500 })},
		{10, "another request", "a request waits for another one's answer", without(func(r *receipt.Rules) {
			r.Forgetful = true
			r.NextReceipt = func(was journal.Receipt, ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
				result, err := machine.NextReceipt(was, ev)
				if result.Decision == machine.Misuse {
					result.Decision = machine.Wait
				}
				return result, err
			}
		})},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			cfg := world(t, tc.world)
			res, err := receipt.Explore(&cfg, tc.rules, limit)
			require.NoError(t, err)
			v := res.Violation
			require.NotNil(t, v, "nothing is broken")
			assert.Equal(t, tc.invariant, v.Invariant.Number, "%s\n%s", v.Invariant.Statement, strings.Join(v.History, "\n"))
			t.Logf("invariant %d: %s\n%s", v.Invariant.Number, v.Invariant.Statement, strings.Join(v.History, "\n"))
		})
	}
}

// A violation is shown as the shortest history.
func TestViolationIsTheShortestHistory(t *testing.T) {
	t.Parallel()
	cfg := world(t, "the database rolls back")
	res, err := receipt.Explore(&cfg, without(func(r *receipt.Rules) { r.Trustful = true }), limit)
	require.NoError(t, err)
	require.NotNil(t, res.Violation)
	assert.Equal(t, []string{
		"caller 0 asks process A: execute",
		"process A asks for the transaction: execute",
		"process A has its transaction ended by the database",
		"process A returns 201 Created",
	}, res.Violation.History)
}

func TestASearchThatMeetsItsLimitIsAnError(t *testing.T) {
	t.Parallel()
	cfg := world(t, "days pass")
	_, err := receipt.Explore(&cfg, receipt.Real(), 100)
	assert.ErrorIs(t, err, receipt.ErrTooLarge)
}
