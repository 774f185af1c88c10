package model

import "github.com/onceward/onceward/journal"

// Invariant is a condition that holds in every reachable state.
type Invariant struct {
	Number    int
	Name      string
	Statement string

	// holds judges a step and the next state; nil: Explore decides the invariant over the whole graph.
	holds func(c *change) bool
}

// change is one step.
type change struct {
	*Config
	before, after     *state
	opBefore, opAfter *record
	facts
}

// Invariants are the seventeen.
var Invariants = []Invariant{
	{1, "one effect", "The effects of an operation are at most one more than the false \"not executed\" resolutions.", func(c *change) bool {
		allowed := 1
		if c.after.FalseNot {
			allowed++
		}
		return c.after.effects() <= allowed
	}},
	{2, "no loss", "A Begin that was acknowledged leaves a record, or later a tombstone; only what is settled and delivered is removed.", func(c *change) bool {
		gone := c.opBefore.State != journal.StateAbsent && c.opAfter.State == journal.StateAbsent
		return !gone || c.forgot && c.lawful && (c.opBefore.Naming != journal.Named || c.opBefore.State == journal.StateCancelled)
	}},
	{3, "outcomes are true", "Without a false resolution: completed as a success means an effect; completed as a refusal, or cancelled, means none, and no request under way that may still take effect.", func(c *change) bool {
		op, s := c.opAfter, c.after
		if s.FalseNot || s.FalseDone {
			return true
		}
		switch op.State {
		case journal.StateCompleted:
			if op.Tombstone {
				return true // this was checked when the answer came
			}
			if op.Answer == refusal {
				return s.effects() == 0 && !s.mayTakeEffect(c.Config, 0) && !s.mayTakeEffect(c.Config, 1)
			}
			return s.effects() >= 1
		case journal.StateCancelled:
			return s.effects() == 0 && !s.mayTakeEffect(c.Config, 0) && !s.mayTakeEffect(c.Config, 1)
		}
		return true
	}},
	{4, "one answer", "Two answers that were served for one generation are equal, unless a person supplied one in between. It replaced an answer that was omitted, cut off, or not the provider's.", func(c *change) bool { return !c.differs }},
	{5, "sends are proven safe", "No attempt begins if an earlier one may have run and the provider need not recognise it. No unnamed operation is sent in the background once its caller received an error.", func(c *change) bool {
		return !c.unsafe || c.after.FalseNot
	}},
	{6, "what has not run", "If the record says that nothing may have run, there is no effect of this generation, and none of its requests is under way.", func(c *change) bool {
		op, s := c.opAfter, c.after
		return op.State == journal.StateAbsent || op.MayHaveRun || s.FalseNot || s.Effects[s.Life] == 0 && !s.mayExecute(s.Life)
	}},
	{7, "the first send is dated", "The recorded first send is no later than the true one, unless its window is closed, or will be as soon as the clock is believed.", func(c *change) bool {
		op, s := c.opAfter, c.after
		if op.State == journal.StateAbsent || op.State == journal.StateCompleted || op.WindowClosed || s.Ahead > 0 || s.Jumped || c.Keyless {
			return true
		}
		sent := s.First[c.wireKey(op.Key, op.Form)]
		if sent >= past {
			return true
		}
		return op.First != never && op.First <= -stamp(int(sent)+int(s.Ahead))*stepMillis
	}},
	{8, "the holder alone gives up", "Only the holder of the current claim parks, doubts or cancels.", func(c *change) bool { return !c.released || c.rightful }},
	{9, "there is an end", "From every state a path without faults leads to completed, cancelled or unknown.", nil},
	{10, "names are used once", "A name that has an answer is never executed again, even after it was reaped.", func(c *change) bool {
		return !c.executed || !c.before.Named || c.Naming != journal.Named
	}},
	{11, "answers are delivered", "An undelivered answer is never reaped.", func(c *change) bool { return !c.forgot || c.lawful }},
	{12, "the lost are silent", "No client begins an attempt that knows that its session is lost.", func(c *change) bool { return !c.sent || !c.seen }},
	{13, "the pending stay", "A pending operation of one client is not cancelled because another client, or the background work, ends.", func(c *change) bool { return !c.dropped }},
	{14, "what was seen is recorded", "Evidence of an effect completes the operation, or is kept with the operation.", func(c *change) bool {
		return !c.told || c.opAfter.recorded(c.object)
	}},
	{15, "a withdrawal stays", "No client executes a withdrawn operation until it is reinstated.", func(c *change) bool {
		return !c.executed || !c.opBefore.Withdrawn
	}},
	{16, "the doubted stay", "No client executes an unknown operation unless a person resolved it.", func(c *change) bool {
		return !c.executed || !c.before.Doubted
	}},
	{17, "the late stay", "An operation with a latest time, of which nothing may have run, is not sent after that time.", func(c *change) bool {
		op := c.opBefore
		return !c.executed || op.State != journal.StatePending || op.MayHaveRun || op.By == never || op.By >= 0
	}},
}

// mayTakeEffect reports whether a request of this life may still take effect: a request that the provider recognises
// does not.
func (s *state) mayTakeEffect(c *Config, life uint8) bool {
	for _, m := range s.Net {
		if !m.mayExecute() || m.life() != life {
			continue
		}
		if m.where() == executing || c.Keyless || s.Keys[m.key()].Status <= dated {
			return true
		}
	}
	return false
}
