package receipt

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
	*explorer
	before, after *state
	facts
}

// Invariants are the ten.
var Invariants = []Invariant{
	{1, "one effect", "A life of a key has at most one row.", func(c *change) bool { return c.after.Rows <= 1 }},
	{2, "rows are receipts", "A committed answer that tells of a row has one, and a row has a receipt until its key is new.", func(c *change) bool {
		s := c.after
		rec := c.rec(s.Rec)
		told := rec.HasAnswer && (rec.Status == created || rec.Status == declined)
		switch {
		case told:
			return s.Rows == 1
		case rec.State == journal.ReceiptAbsent && c.Handler == Writes:
			return s.Rows == 0 || s.over()
		}
		return true
	}},
	{3, "one answer", "Every answer that a caller gets is the one that was recorded first in the key's life.", func(c *change) bool {
		return !c.replaced && (c.heard != anAnswer || c.answer == c.after.Answer)
	}},
	{4, "answers stay with their request", "No caller gets the answer of another request, and no request is refused as another one without need.", func(c *change) bool {
		switch c.heard {
		case anAnswer:
			return c.request(c.by) == c.after.Request
		case misuse:
			return c.differs
		}
		return true
	}},
	{5, "one life at a time", "No handler's transaction begins, and no answer is recorded, in a life that has an effect or an answer.", func(c *change) bool { return !c.early }},
	{6, "kept for as long as promised", "Until its time, an answer is neither removed nor refused as expired. What is reserved is never removed.", func(c *change) bool {
		return !c.removed && (c.heard != gone || c.after.Age > 0)
	}},
	{7, "what is denied stays undone", "If a caller is told that nothing is kept, no commit of that run lands afterwards.", func(c *change) bool { return !c.denied }},
	{8, "the unknown stay", "A reservation that was committed is changed by an operator alone.", func(c *change) bool {
		before, after := c.rec(c.before.Rec), c.rec(c.after.Rec)
		return before.State != journal.ReceiptReserved || c.resolved || after.State == before.State && after.Claim == before.Claim
	}},
	{9, "receipts are sound", "Every receipt that NextReceipt returns keeps the invariants of machine.ReceiptViolations.", func(c *change) bool {
		return !c.unsound
	}},
	{10, "there is an end", "From every state a path without faults leads to callers that have an answer or a refusal, and to nothing under way.", nil},
}
