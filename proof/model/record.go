package model

import (
	"math"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// now is the time that every clock of the model shows, always: when time passes, the stamps age.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stamp is a time as the distance from now, in milliseconds.
type stamp int32

const never = stamp(math.MinInt32) // the zero time

const stepMillis = stamp(step / time.Millisecond)

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return never
	}
	return stamp(t.Sub(now) / time.Millisecond)
}

func (s stamp) time() time.Time {
	if s == never {
		return time.Time{}
	}
	return now.Add(time.Duration(s) * time.Millisecond)
}

// aged is s after so many steps of the clock, none older than oldest steps.
func (s stamp) aged(steps, oldest int) stamp {
	if s == never {
		return s
	}
	s -= stamp(steps) * stepMillis
	for s < -stamp(oldest)*stepMillis {
		s += stepMillis
	}
	return s
}

// answer is an answer that was recorded, or will be.
type answer uint8

const (
	noAnswer answer = iota
	success
	refusal
	byHand
	cutSuccess
	shownAnswer // by a look or an event
)

func (a answer) journal() *journal.Answer {
	switch a {
	case success, cutSuccess:
		return &journal.Answer{Status: 201, Cut: a == cutSuccess}
	case refusal:
		return &journal.Answer{Status: 402, Refused: true}
	case byHand:
		return &journal.Answer{ByHand: true, Omitted: true}
	case shownAnswer:
		return &journal.Answer{Found: true, Omitted: true}
	}
	return nil
}

func answerOf(a *journal.Answer) answer {
	switch {
	case a == nil:
		return noAnswer
	case a.ByHand:
		return byHand
	case a.Found:
		return shownAnswer
	case a.Refused:
		return refusal
	case a.Cut:
		return cutSuccess
	}
	return success
}

func (a answer) String() string {
	return [...]string{"none", "success", "refusal", "by hand", "success, cut", "shown"}[a]
}

// record is a journal.Operation with only the fields that Next's decisions depend on. It is comparable.
type record struct {
	State      journal.State
	Naming     journal.Naming
	Key        string
	Carried    bool
	Generation int
	Form       string
	Request    string // the fingerprint
	Terms      journal.Terms
	Holder     string
	Claim      int64
	Asker      int64

	Found                journal.State
	MayHaveRun, FoundRun bool
	Failed, FoundFailed  bool
	First, FoundFirst    stamp
	Ended, Busy          stamp
	WindowClosed         bool
	Created              stamp
	Settled, Due, Wake   stamp
	By                   stamp // NotAfter
	Answer               answer
	Answered             int // the generation of Answer

	Told, ByHand, Delivered, Tombstone bool
	Held                               bool // it is on hold
	SecondEffects                      int

	Left               uint8 // the earlier generations with an attempt that may have left
	Object             string
	Dead, Disputed     bool
	Withdrawn, Adopted bool
	Seen               [maxSeen]evidence
	Crowded            bool // there was no room for all of it
}

func (r *record) operation() journal.Operation {
	if r.State == journal.StateAbsent {
		return journal.Operation{}
	}
	op := journal.Operation{
		Ref: ref, Naming: r.Naming, Key: r.Key, KeyCarried: r.Carried, Generation: r.Generation,
		Fingerprint: r.Request, Terms: r.Terms, Form: r.Form,
		State: r.State, Holder: r.Holder, Claim: r.Claim, Asker: r.Asker,
		MayHaveRun: r.MayHaveRun, Failed: r.Failed, FirstSentAt: r.First.time(),
		Found:       journal.Found{State: r.Found, MayHaveRun: r.FoundRun, Failed: r.FoundFailed, FirstSentAt: r.FoundFirst.time()},
		LastEndedAt: r.Ended.time(), WindowClosed: r.WindowClosed, BusySince: r.Busy.time(),
		CreatedAt: r.Created.time(), SettledAt: r.Settled.time(),
		DueAt: r.Due.time(), WakeAt: r.Wake.time(), NotAfter: r.By.time(),
		Answer: r.Answer.journal(),
		Told:   r.Told, ByHand: r.ByHand, Delivered: r.Delivered, Tombstone: r.Tombstone, SecondEffects: r.SecondEffects,
	}
	if op.Answer != nil {
		op.Answer.Generation = r.Answered
	}
	op.Account, op.Object, op.Adopted, op.Evidence = account, r.Object, r.Adopted, r.evidence()
	for generation := range r.Generation {
		if r.Left>>generation&1 == 1 {
			op.Rounds = append(op.Rounds, journal.Round{Generation: generation})
		}
	}
	if r.Dead {
		op.Attention, op.Disputed = "dead", r.Disputed
	}
	if r.Withdrawn {
		op.Withdrawn = &journal.Resolved{Resolution: journal.Withdraw}
	}
	if r.Held {
		op.Resolved = &journal.Resolved{Resolution: journal.Hold}
	}
	return op
}

var ref = journal.Ref{ID: "invoice-991/charge"}

// recordOf returns the fields of an operation that may still matter in the world.
func (c *Config) recordOf(op *journal.Operation) record {
	if op.State == journal.StateAbsent {
		return record{First: never, FoundFirst: never, Ended: never, Busy: never, Created: never, Settled: never, Due: never, Wake: never, By: never}
	}
	r := record{
		State: op.State, Naming: op.Naming, Key: op.Key, Carried: op.KeyCarried, Generation: op.Generation,
		Request: op.Fingerprint, Terms: op.Terms, Form: op.Form, Holder: op.Holder, Claim: op.Claim, Asker: op.Asker,
		MayHaveRun: op.MayHaveRun, First: stampOf(op.FirstSentAt), WindowClosed: op.WindowClosed,
		Failed: op.Failed, Found: op.Found.State, FoundRun: op.Found.MayHaveRun, FoundFailed: op.Found.Failed, FoundFirst: stampOf(op.Found.FirstSentAt),
		Ended: stampOf(op.LastEndedAt), Busy: stampOf(op.BusySince),
		Created: stampOf(op.CreatedAt), Settled: stampOf(op.SettledAt),
		Due: stampOf(op.DueAt), Wake: stampOf(op.WakeAt), By: stampOf(op.NotAfter),
		Answer: answerOf(op.Answer),
		Told:   op.Told, ByHand: op.ByHand, Delivered: op.Delivered, Tombstone: op.Tombstone, SecondEffects: min(op.SecondEffects, 1),
	}
	if op.Answer != nil {
		r.Answered = op.Answer.Generation
	}
	if c.Finds {
		var room bool
		r.Object, r.Dead, r.Disputed, r.Withdrawn, r.Adopted = op.Object, op.Attention != "", op.Disputed, op.Withdrawn != nil, op.Adopted
		r.Seen, room = seenOf(op)
		for _, round := range op.Rounds {
			r.Left |= 1 << round.Generation
		}
		r.Crowded = !room
	}
	r.Held = op.State == journal.StateUnknown && op.Resolved != nil && op.Resolved.Resolution == journal.Hold
	if r.State != journal.StateInFlight {
		r.FoundFirst, r.FoundFailed = never, false
		r.Found = journal.StateAbsent
	}
	if r.State != journal.StateInFlight || c.Budget.Failures == 0 {
		r.Asker = 0 // only the cancel of an uncertain Begin asks for it
	}
	if c.Provider.Remembers != providers.SuccessesLostAnswers || r.State == journal.StateCompleted {
		r.Failed, r.FoundFailed = false, false
	}
	if r.State == journal.StateCompleted {
		r.Form = ""
	}
	if r.State != journal.StateInFlight && r.Terms.Remembers == providers.Everything {
		r.FoundRun = false
	}
	if r.State == journal.StateCompleted {
		r.FoundRun = false
		r.First, r.Ended, r.Busy, r.WindowClosed = never, never, never, false
	}
	if r.Terms.Guard && !c.Finds {
		r.Ended = never // not asked for
	}
	if r.Naming == journal.Named && !c.Backups {
		r.Created = never
	}
	if !c.Reaps && !(c.Finds && r.State == journal.StateUnknown) {
		r.Settled = never
	}
	if r.MayHaveRun && r.FoundRun || r.State.Settled() {
		r.By = never // it is asked for no more
	}
	if c.Budget.ClockSteps == 0 {
		r.Due, r.Wake = r.Due.notPast(), r.Wake.notPast()
	}
	return r
}

// notPast takes all that is due for due now.
func (s stamp) notPast() stamp {
	if s == never || s > 0 {
		return s
	}
	return 0
}

func (c *Config) agedRecord(r record, steps int) record {
	for _, s := range []*stamp{&r.First, &r.FoundFirst, &r.Ended, &r.Busy, &r.Created, &r.Settled, &r.Due, &r.Wake, &r.By} {
		*s = s.aged(steps, c.oldest())
	}
	for i := range r.Seen {
		if r.Seen[i].Finding != 0 {
			r.Seen[i].At = r.Seen[i].At.aged(steps, c.oldest())
		}
	}
	if c.Budget.ClockSteps == 0 {
		r.Due, r.Wake = r.Due.notPast(), r.Wake.notPast()
	}
	return r
}

// oldest returns the age, in steps, beyond which stamps are not told apart. It leaves room for the steps of a clock
// that goes back.
func (c *Config) oldest() int { return past + c.Budget.ClockSteps }
