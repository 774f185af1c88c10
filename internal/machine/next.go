package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/words"
	"github.com/onceward/onceward/journal"
)

// maxBusy is how long a provider may go on answering "in flight" before the operation becomes unknown.
const maxBusy = 24 * time.Hour

// A clock has jumped if it is ahead of the journal's last time by more than Leap, or behind by more than an operation's
// margin. Stores believe the clock after the store's own time has run for Confirmation from there.
const (
	Leap         = 24 * time.Hour
	Confirmation = 10 * time.Minute
)

// EventError says why an event was refused. Nothing was changed.
type EventError struct {
	Kind   EventKind
	State  journal.State
	Reason string
}

func (e *EventError) Error() string {
	return fmt.Sprintf("journal: %s of an operation that is %s: %s", e.Kind, e.State, e.Reason)
}

func (e *EventError) Unwrap() error { return journal.ErrInvalidEvent }

// Next is the state machine: it returns op after ev, and the decision for the caller. Next is pure and total. live
// reports whether the session in op.Holder is alive. The zero Operation stands for one that the journal lacks. The
// store removes a result in StateAbsent. With an error, or the decisions Ignored, Stale, Wait, Replay, Misuse, Gone and
// Withdrawn, the operation is unchanged, but the window may be closed now.
//
// Next shares slices and maps of op and ev with the result and writes to none.
func Next(op journal.Operation, live bool, ev Event) (journal.Operation, Decision, error) {
	ev.At, ev.Last, ev.Due, ev.Wake, ev.Unconfirmed = stamp(ev.At), stamp(ev.Last), stamp(ev.Due), stamp(ev.Wake), stamp(ev.Unconfirmed)
	ev.Since, ev.Ahead = stamp(ev.Since), stamp(ev.Ahead)
	if ev.Kind != EventEnqueue { // which sends nothing, and may not know the latest time
		closeWindow(&op, &ev)
	}
	next := op
	decision, err := step(&next, live, &ev)
	if err != nil {
		return op, Ignored, err
	}
	switch decision {
	case Ignored, Stale, Wait, Replay, Misuse, Gone, Withdrawn:
		return next, decision, nil
	}
	// An operation that is only put off keeps the time of a clock that was far ahead. By this time cameBack recognises
	// that the due time is wrong.
	if next.State != journal.StateAbsent && (decision != Later || op.UpdatedAt.Sub(ev.At) <= Leap) {
		next.UpdatedAt = ev.At
	}
	return next, decision, nil
}

// step changes op and ev, which are Next's own copies. With an error it may leave op in any state.
func step(op *journal.Operation, live bool, ev *Event) (Decision, error) {
	switch ev.Kind {
	case EventBegin:
		return begin(op, live, ev)
	case EventEnqueue:
		return enqueue(op, ev)
	case EventClaim:
		return claim(op, live, ev)
	case EventComplete:
		return complete(op, ev)
	case EventPark, EventMarkUnknown, EventCancel:
		return release(op, ev)
	case EventSign:
		return sign(op, ev)
	case EventResolve:
		return resolve(op, live, ev)
	case EventDeliver:
		return deliver(op, ev)
	case EventReap:
		return reap(op, ev)
	case EventClock:
		confirm(op, ev)
		cameBack(op, ev)
		return Ignored, nil
	case EventAdopt:
		return adopt(op, live, ev)
	case EventLook:
		return leaseLookup(op, ev)
	case EventHint:
		return hint(op, ev)
	case EventEvidence:
		return evidence(op, ev)
	}
	return Ignored, invalid(op, ev, "no such event")
}

// confirm corrects an operation without an answer whose first send was stamped by a clock that had jumped ahead and is
// believed by now. The operation's window began at the clock's time.
func confirm(op *journal.Operation, ev *Event) {
	if !ev.Since.IsZero() && op.State != journal.StateCompleted && op.SentSince.Equal(ev.Last) && !op.FirstSentAt.Before(ev.Since) && !op.FirstSentAt.After(ev.At) {
		op.SentSince = time.Time{}
	}
}

// cameBack corrects an operation without an answer whose timestamps came from a clock that ran ahead. The clock was
// never confirmed, or was corrected by more than Leap. A due time keeps its distance, from now on. A due time from
// another clock before stays. The first send keeps the time said to the provider. SentSince or a closed window marks
// the operation.
func cameBack(op *journal.Operation, ev *Event) {
	if !wasAhead(op.UpdatedAt, ev.At, ev.Last) || !ev.Unconfirmed.IsZero() || op.State == journal.StateCompleted {
		return
	}
	now := ev.At
	if lead := ev.Last.Sub(ev.At); lead > 0 && lead <= leapMargin(op.Terms) {
		now = ev.Last // the clock of another process, which is right too: the operation stays due for as long
	}
	op.DueAt, op.WakeAt = closer(op.DueAt, op.UpdatedAt, now), closer(op.WakeAt, op.UpdatedAt, now)
	op.LookAt = closer(op.LookAt, op.UpdatedAt, ev.At)
	for _, t := range []*time.Time{&op.CreatedAt, &op.UpdatedAt, &op.SettledAt, &op.LastEndedAt, &op.BusySince, &op.ParkedSince, &op.LookedAt} {
		if t.After(ev.At) {
			*t = ev.At
		}
	}
}

// wasAhead reports whether a timestamp came from a clock that was never confirmed, or has been corrected by more than
// Leap.
func wasAhead(written, at, last time.Time) bool {
	lead := written.Sub(at)
	return lead > 0 && (lead > Leap || written.After(last))
}

// certainTime returns the latest time that has passed for sure: the caller's. If the caller's clock is not believed,
// an earlier last time of the journal counts instead.
func certainTime(ev *Event) time.Time {
	if ev.Unconfirmed.IsZero() {
		return ev.At
	}
	return earlier(ev.At, ev.Last)
}

// latest returns the journal's latest time, the caller's clock included. A clock that is not believed does not count.
func latest(ev *Event) time.Time {
	if ev.Unconfirmed.IsZero() {
		return later(ev.At, ev.Last)
	}
	return ev.Last
}

// closer moves t from one clock's time to another's: the result is as long after to as t is after from. The zero time
// stays. A time before from and after to also stays, such as a provider's Retry-After dated by another clock. But no
// such clock can have set a time more than Leap after to, and closer moves that time too.
func closer(t, from, to time.Time) time.Time {
	if t.IsZero() || t.Before(from) && t.After(to) && t.Sub(to) <= Leap {
		return t
	}
	return to.Add(max(t.Sub(from), 0))
}

// closeWindow closes the window of an operation whose stamp came from a clock that ran ahead. The present clock is
// believed, and behind the stamp by more than the margin. A completed operation is not sent again, except for a
// missing answer (see closeRepeat).
func closeWindow(op *journal.Operation, ev *Event) {
	if op.State != journal.StateCompleted && isAhead(op, ev) {
		op.WindowClosed = true
	}
}

// closeRepeat closes the window of a completed operation before a look-up for the missing answer. No clock's event
// reaches such an operation. So closeRepeat attributes a first send to a clock that was set back, if the clock's latest
// time is not earlier.
func closeRepeat(op *journal.Operation, ev *Event) {
	if op.State == journal.StateCompleted && (isAhead(op, ev) || !ev.Ahead.Before(sentSince(op))) {
		op.WindowClosed = true
	}
}

// isAhead reports whether a clock that is ahead of the present, believed one may have dated the operation's first send.
// After the clock was set back, any first send qualifies: the former clock may have run ahead for longer than its lead.
func isAhead(op *journal.Operation, ev *Event) bool {
	since := sentSince(op)
	return ev.Unconfirmed.IsZero() && ev.Last.Sub(ev.At) > leapMargin(op.Terms) && (since.After(ev.At) || ev.SetBack && !since.IsZero())
}

// sentFrom moves the first send back to t, unless it is earlier already.
func sentFrom(op *journal.Operation, t time.Time) {
	op.FirstSentAt = t
	if !op.SentSince.Before(t) {
		op.SentSince = time.Time{}
	}
}

// sentSince returns the earliest possible time of the first send, or zero if there was none. The window begins then.
func sentSince(op *journal.Operation) time.Time {
	if !op.SentSince.IsZero() {
		return op.SentSince
	}
	return op.FirstSentAt
}

// sentBy returns the latest time of the first send, by a clock that may have been ahead and has come back since.
func sentBy(op *journal.Operation) time.Time {
	if op.LastEndedAt.IsZero() {
		return op.FirstSentAt
	}
	return earlier(op.FirstSentAt, op.LastEndedAt)
}

func begin(op *journal.Operation, live bool, ev *Event) (Decision, error) {
	if ev.Intent == nil || ev.Session == "" {
		return Ignored, invalid(op, ev, "needs an intent and a session")
	}
	in := ev.Intent
	switch {
	case op.State == journal.StateAbsent || op.State == journal.StateCancelled:
		switch {
		case op.Withdrawn != nil:
			return Withdrawn, nil
		case !in.NotAfter.IsZero() && ev.At.After(in.NotAfter):
			return Ignored, invalid(op, ev, "the time until which it may be sent has passed")
		}
		anew(op, ev)
		op.Enqueued = false
		acquire(op, ev)
		return Execute, nil
	case op.Tombstone:
		return Gone, nil
	case in.Another(op):
		return Misuse, nil
	}
	switch op.State {
	case journal.StateCompleted:
		return Replay, nil
	case journal.StateUnknown:
		return Stop, nil
	case journal.StateInFlight:
		if live {
			return Wait, nil
		}
		sessionLost(op, ev)
		if applyDeferred(op, ev) {
			op.Asker = ev.Asker
			return Weighed, nil
		}
	}
	var decision Decision
	var err error
	if in.Provider == "" && op.Provider != "" {
		decision = Later // it is left to those who know its provider, as by a claim
	} else {
		op.Terms = termsBy(op, in)
		closeWindow(op, ev)
		decision, err = send(op, ev, in.Form)
	}
	if decision == Execute && !op.Found.MayHaveRun {
		takeOver(op, in, !op.Found.FirstSentAt.IsZero())
		if op.Mode == "" {
			op.Mode = in.Mode
		}
	}
	if decision == Later && op.Naming != journal.Named {
		op.Told = true
		waitsForItsCaller(op, ev, callersWindow(op))
	}
	return decision, err
}

// enqueue makes an absent or cancelled operation pending. The next claim after the due time sends the operation.
func enqueue(op *journal.Operation, ev *Event) (Decision, error) {
	in := ev.Intent
	switch {
	case in == nil:
		return Ignored, invalid(op, ev, "needs an intent")
	case in.Naming != journal.Named:
		return Ignored, invalid(op, ev, "needs a name, which identifies it when it is enqueued again")
	case in.BodyWithheld:
		return Ignored, invalid(op, ev, "its body is a secret and is not recorded, so no process could send it later")
	case op.State == journal.StateAbsent || op.State == journal.StateCancelled:
		if op.Withdrawn != nil {
			return Withdrawn, nil
		}
		anew(op, ev)
		op.Enqueued, op.Naming = true, journal.Named // although a caller's key may have been its name before
		op.State, op.Holder = journal.StatePending, ""
		op.DueAt, op.DueOwn = later(ev.Due, certainTime(ev)), false
		op.WakeAt = wakeBy(op, op.DueAt)
		op.SettledAt, op.Delivered, op.Told, op.ByHand = time.Time{}, false, false, false
		op.Cause = "enqueued"
		clearAttention(op)
		return Recorded, nil
	case op.Tombstone:
		return Gone, nil
	case in.Another(op):
		return Misuse, nil
	}
	return Ignored, nil
}

// anew begins a new life of an operation that the journal does not have, or whose last life was cancelled.
func anew(op *journal.Operation, ev *Event) {
	in := ev.Intent
	switch {
	case op.State == journal.StateAbsent:
		*op = journal.Operation{Handle: op.Handle, Ref: ev.Ref, Alias: in.Alias, Key: in.Key, KeyCarried: in.KeyCarried, CreatedAt: ev.At}
		op.Naming = in.Naming
		intend(op, in)
	case in.same(op.Fingerprint) && !op.ByHand:
		op.Mode = in.Mode
		op.Terms = termsBy(op, in)
		takeOver(op, in, !op.NeverLeft())
		if ev.Kind != EventEnqueue {
			closeWindow(op, ev)
		}
	default:
		generation(op, in.nextKey(op), "")
		intend(op, in)
	}
	op.NotAfter = stamp(in.NotAfter)
	op.InboundEndpoint, op.Flow = in.InboundEndpoint, in.Flow
}

// Another reports whether op has begun and differs from the intent in the request, the credential's mode, or the
// endpoint of the inbound request. A mode or endpoint that only one side has is not compared.
func (in *Intent) Another(op *journal.Operation) bool {
	return !in.same(op.Fingerprint) || contradict(op.Mode, in.Mode) || contradict(op.InboundEndpoint, in.InboundEndpoint)
}

// contradict reports whether two values differ although both are known.
func contradict(recorded, asked string) bool {
	return recorded != asked && recorded != "" && asked != ""
}

func (in *Intent) same(fingerprint string) bool {
	if in.Same == nil {
		return fingerprint == in.Fingerprint
	}
	return in.Same(fingerprint)
}

// termsBy narrows the operation's terms by the intent's. If nothing may have run, and it began under no table, there
// is nothing to narrow.
func termsBy(op *journal.Operation, in *Intent) journal.Terms {
	if op.Provider == "" && in.Provider != "" && !op.MayHaveRun {
		return in.Terms
	}
	return op.Terms.Narrow(in.Terms)
}

// nextKey returns the key for the operation's next generation.
func (in *Intent) nextKey(op *journal.Operation) string {
	switch {
	case in.NextKey != nil:
		return in.NextKey(op.Generation + 1)
	case op.Naming == in.Naming:
		return in.Key
	}
	return op.Key // it was asked for by its alias
}

// intend copies the request and its contract from the intent.
func intend(op *journal.Operation, in *Intent) {
	op.Fingerprint, op.Terms, op.Mode = in.Fingerprint, in.Terms, in.Mode
	takeOver(op, in, !op.NeverLeft())
}

// takeOver replaces the request of an operation that can't have run with the caller's request. Both have the same
// fingerprint, but may have other headers. left says that an attempt under the operation's key may have left.
func takeOver(op *journal.Operation, in *Intent, left bool) {
	op.Request, op.BodyWithheld = in.Request, in.BodyWithheld
	op.Credential, op.Form = in.Credential, in.Form
	op.Provider, op.Endpoint = in.Provider, in.Endpoint // the contract may have another name by now
	op.Account = in.Account
	if op.Trace = in.Trace; len(op.Trace) > MaxTrace {
		op.Trace = ""
	}
	op.Compare, op.Row = in.Compare, in.Row
	switch {
	case op.Key != "" || op.Generation != 0:
	case !in.KeyCarried || op.Alias == in.Alias:
		op.Key, op.KeyCarried = in.Key, in.KeyCarried
	case in.NextKey != nil: // no caller would find it by the carried key, which another may have
		op.Key = in.NextKey(op.Generation)
	}
	refer(op, in, left)
}

// refer gives the operation the intent's reference. A generation always has the same reference from the client, since
// under its key the provider would refuse another body. So an operation that may have left without a reference gets
// none. Nor does an operation with a caller's key: other requests may have had the key.
func refer(op *journal.Operation, in *Intent, left bool) {
	reference, name, ours := op.Reference, op.ReferenceName, op.ReferenceOurs
	op.Reference, op.ReferenceName, op.ReferenceOurs = in.Reference, in.ReferenceName, in.ReferenceOurs
	switch {
	case !in.ReferenceOurs:
	case op.KeyCarried, left && !ours:
		op.Reference, op.ReferenceName, op.ReferenceOurs = "", "", false
	case left && reference != "":
		op.Reference, op.ReferenceName = reference, name
	case in.NextReference != nil:
		op.Reference = in.NextReference(op.Key, op.Generation)
	}
}

// generation starts the next life of an operation whose last one had no effect. reference replaces one that was made
// for the last.
func generation(op *journal.Operation, key, reference string) {
	if !op.NeverLeft() { // else nothing can be recognised by what it had
		op.Rounds = append(slices.Clone(op.Rounds), journal.Round{Generation: op.Generation, Key: op.Key, Reference: op.Reference})
		op.Rounds = op.Rounds[max(len(op.Rounds)-maxRounds, 0):]
	}
	op.Generation++
	op.LastAnswer = nil
	if op.ReferenceOurs {
		op.Reference = reference
	}
	if key != op.Key {
		op.Key, op.KeyCarried = key, false
		op.FirstSentAt, op.SentSince, op.WindowClosed = time.Time{}, time.Time{}, false
	}
	op.MayHaveRun, op.Failed, op.Found = false, false, journal.Found{}
	op.LastEndedAt, op.BusySince, op.ParkedSince = time.Time{}, time.Time{}, time.Time{}
	op.Attempts = 0
	op.Adopted = false
	clearAttention(op)
}

// clearAttention clears the reason why a person has to look at the operation, as of an earlier state.
func clearAttention(op *journal.Operation) {
	op.Attention, op.Disputed, op.LookAt, op.LeftFor = "", false, time.Time{}, 0
}

func claim(op *journal.Operation, live bool, ev *Event) (Decision, error) {
	if ev.Session == "" {
		return Ignored, invalid(op, ev, "needs a session")
	}
	form, was := op.Form, *op
	if op.State == journal.StatePending || op.State == journal.StateInFlight && !live {
		if ev.From != nil && !slices.Contains(ev.From, op.Provider) {
			return Ignored, nil
		}
		if ev.Today != nil {
			asked := *op // op itself stays off the heap
			today, known := ev.Today(&asked)
			if !known {
				return Ignored, nil
			}
			form = today.Form
			op.Terms = op.Terms.Narrow(today.Terms)
			closeWindow(op, ev)
		}
	}
	switch op.State {
	case journal.StatePending:
		if ev.NamedOnly && op.Naming != journal.Named && !op.Told && !op.BodyWithheld &&
			MaySend(question(op, op.MayHaveRun, ev.At, ev)).Answer != Never {
			*op = was
			return Ignored, nil // others may send it
		}
	case journal.StateInFlight:
		if live {
			return Wait, nil
		}
		sessionLost(op, ev)
		if applyDeferred(op, ev) {
			return Weighed, nil
		}
	default:
		return offer(op, live, ev)
	}
	op.Asker = ev.Asker
	if op.BodyWithheld || op.Naming != journal.Named && (op.Told || ev.NamedOnly) {
		return waitForCaller(op, ev)
	}
	return send(op, ev, form)
}

// offer gives an undelivered outcome to one session at a time, and ends the look-up of a dead session.
func offer(op *journal.Operation, live bool, ev *Event) (Decision, error) {
	seeks := op.State == journal.StateUnknown && op.Attention == ""
	otherwise := Ignored
	if seeks && op.Holder != "" && !live {
		endLookup(op, ev)
		otherwise = Recorded
	}
	switch {
	case op.State == journal.StateAbsent || op.Delivered || ev.HookElsewhere:
		return otherwise, nil
	case seeks && ev.Looking:
		return otherwise, nil // it may settle by itself
	case op.Holder != "" && live:
		return Wait, nil
	}
	op.Holder, op.Asker = ev.Session, ev.Asker
	return Offer, nil
}

// waitForCaller keeps an operation that only the caller can have sent, since the operation is unnamed or the journal
// lacks the body. The caller may ask again until the window ends. Then the rule decides.
func waitForCaller(op *journal.Operation, ev *Event) (Decision, error) {
	if decision := expire(op, ev); decision != Ignored {
		return decision, nil
	}
	ends := callersWindow(op)
	if !ev.Unconfirmed.IsZero() && !over(op, ev) {
		op.WakeAt = later(ev.At, ev.Unconfirmed)
		return Later, nil
	}
	if (op.BodyWithheld || op.Told) && later(ev.At, ev.Last).Before(ends) {
		waitsForItsCaller(op, ev, ends)
		return Later, nil
	}
	op.Cause = words.Because(op.Cause, "its caller did not repeat it while it could be sent")
	if op.MayHaveRun {
		settle(op, ev, journal.StateUnknown)
		return Stop, nil
	}
	settle(op, ev, journal.StateCancelled)
	return Recorded, nil
}

// waitsForItsCaller puts off an operation that only the caller can have sent again, until the window ends. If the
// operation may have run, a person has to decide PendingAttentionAfter after the first park. That may be long before
// the window ends.
func waitsForItsCaller(op *journal.Operation, ev *Event, ends time.Time) {
	op.WakeAt = ends
	if op.ParkedSince.IsZero() {
		op.ParkedSince = later(ev.At, ev.Last)
	}
	switch listed := op.ParkedSince.Add(journal.PendingAttentionAfter); {
	case !op.MayHaveRun:
	case certainTime(ev).Before(listed):
		op.WakeAt = earlier(ends, listed)
	default:
		op.Attention = "its caller has got an error and has not had it sent again for a day, and nothing else may send it"
	}
}

// callersWindow returns the window's end for a caller with its own key. The caller may ask again until then. If the key
// was never sent, the window begins at the creation. Without a window, the beginning is also the end.
func callersWindow(op *journal.Operation) time.Time {
	if op.FirstSentAt.IsZero() {
		return stamp(op.CreatedAt.Add(op.Terms.Window()))
	}
	return stamp(sentSince(op).Add(op.Terms.Window()))
}

// over reports whether a caller's window is over whatever clock is right. Without a window it is.
func over(op *journal.Operation, ev *Event) bool {
	window, began := op.Terms.Window(), sentBy(op)
	if began.IsZero() {
		began = op.CreatedAt
	}
	return window == 0 || !certainTime(ev).Before(began.Add(window))
}

// sessionLost makes an operation in flight pending, whose session was found dead.
func sessionLost(op *journal.Operation, ev *Event) {
	op.State, op.Holder = journal.StatePending, ""
	op.LastEndedAt = later(ev.At, ev.Last)
	op.DueAt, op.WakeAt = ev.At, ev.At
	op.Told = false
	op.Cause = "its process ended while it was in flight"
}

// send claims a pending operation if the rule allows a send now, with the key in the given form. If something may have
// run under another form, the provider would not recognise the key.
func send(op *journal.Operation, ev *Event, form string) (Decision, error) {
	op.State, op.Holder = journal.StatePending, ""
	if decision := expire(op, ev); decision != Ignored {
		return decision, nil
	}
	p := MaySend(question(op, op.MayHaveRun, ev.At, ev))
	if op.MayHaveRun && op.Form != form {
		p = never(otherForm)
	}
	op.Cause = words.Because(op.Cause, p.Reason)
	if p.Answer == Never {
		settle(op, ev, journal.StateUnknown)
		return Stop, nil
	}
	named := op.DueAt
	if goesAhead(op, ev) {
		op.DueAt = ev.At
	}
	op.DueAt = later(op.DueAt, p.At)
	if op.DueAt.After(ev.At) {
		op.WakeAt = wakeBy(op, later(op.WakeAt, op.DueAt))
		if !ev.Unconfirmed.IsZero() && !named.IsZero() {
			op.DueAt = named // a clock that may be wrong only delays it, since its provider may have named that time
		}
		return Later, nil
	}
	op.Form = form
	acquire(op, ev)
	return Execute, nil
}

// expire cancels an operation that can't have run and whose latest time has passed. If the jumped clock and the
// journal's time disagree, expire puts the operation off, neither cancelled nor sent. Ignored means that the operation
// may be sent.
func expire(op *journal.Operation, ev *Event) Decision {
	surely, perhaps := certainTime(ev), later(ev.At, ev.Last)
	if ev.Unconfirmed.IsZero() {
		surely = perhaps
	}
	switch {
	case op.MayHaveRun || op.NotAfter.IsZero() || !perhaps.After(op.NotAfter):
		return Ignored
	case surely.After(op.NotAfter):
		op.Cause = words.Because(op.Cause, "it was not to be sent after "+op.NotAfter.Format(time.RFC3339))
		settle(op, ev, journal.StateCancelled)
		return Recorded
	}
	op.WakeAt = later(ev.At, ev.Unconfirmed)
	op.DueAt = later(op.DueAt, op.WakeAt)
	return Later
}

// wakeBy returns when to wake an operation: at the given time, or earlier if it will have to be cancelled.
func wakeBy(op *journal.Operation, at time.Time) time.Time {
	if op.MayHaveRun || op.NotAfter.IsZero() {
		return at
	}
	return earlier(at, op.NotAfter.Add(time.Millisecond))
}

// goesAhead reports whether a caller need not wait for the end of an Onceward pause. That is so once in Patience, over
// all callers and processes, and only if nothing may have run.
func goesAhead(op *journal.Operation, ev *Event) bool {
	return ev.Kind == EventBegin && ev.Intent.Patience > 0 && op.DueOwn && !op.MayHaveRun &&
		!ev.At.Before(op.UpdatedAt.Add(ev.Intent.Patience))
}

// acquire begins a claim. From then on the operation counts as sent.
func acquire(op *journal.Operation, ev *Event) {
	op.Claim++
	op.Asker = ev.Asker
	op.Found = journal.Found{State: op.State, MayHaveRun: op.MayHaveRun, Failed: op.Failed, FirstSentAt: op.FirstSentAt}
	op.State, op.Holder = journal.StateInFlight, ev.Session
	op.MayHaveRun, op.Failed = true, true
	if op.FirstSentAt.IsZero() {
		op.FirstSentAt = ev.At
		if !ev.Unconfirmed.IsZero() && ev.Last.Before(ev.At) {
			op.SentSince = ev.Last
		}
	}
	op.DueAt, op.WakeAt, op.SettledAt = time.Time{}, time.Time{}, time.Time{}
	op.DueOwn = false
	op.Cause, op.Told, op.ByHand, op.Delivered = "", false, false, false
	clearAttention(op)
}

// sign replaces the credential of an operation that has not been sent under the old one.
func sign(op *journal.Operation, ev *Event) (Decision, error) {
	switch {
	case ev.Credential == "":
		return Ignored, invalid(op, ev, "needs a credential")
	case op.State != journal.StateInFlight || op.Holder != ev.Session || op.Claim != ev.Claim:
		return Stale, nil
	case op.Found.MayHaveRun && !op.NeverSigned():
		return Ignored, invalid(op, ev, "it may have run under the recorded credential")
	}
	op.Credential, op.Account = ev.Credential, ev.Account
	return Recorded, nil
}

func complete(op *journal.Operation, ev *Event) (Decision, error) {
	switch {
	case ev.Answer == nil:
		return Ignored, invalid(op, ev, "needs an answer")
	case ev.Claim < 1 || ev.Claim > op.Claim || ev.Generation < 0 || ev.Generation > op.Generation:
		return Ignored, invalid(op, ev, "no such claim or generation")
	}
	earlier := ev.Generation < op.Generation
	switch {
	case earlier && ev.Object != "" && Proves(op, "", ev.Object):
		return Ignored, nil // the provider took the two for one request
	case anotherObject(op, ev):
		op.SecondEffects++
		alert(op, ev, twoObjects)
		return SecondEffect, nil
	case op.Answer != nil && op.Answer.Generation == ev.Generation && !op.Answer.Whole() && ev.Answer.Whole():
		return fill(op, ev)
	case op.Answer != nil && op.Answer.Generation == ev.Generation:
		return Replay, nil
	case earlier && ev.Answer.Refused:
		// It had no effect, as was said of that generation.
		return Ignored, nil
	case earlier && op.MayHaveRun:
		op.SecondEffects++
		alert(op, ev, tookTwice)
		return SecondEffect, nil
	case op.Tombstone:
		return Gone, nil
	case op.State == journal.StateCompleted:
		return Replay, nil
	}
	if ev.Answer.Refused && !refusalStands(op, ev) {
		return refused(op, ev)
	}
	op.Attempts += ev.Attempts
	sentAs(op, ev)
	answered(op, ev)
	if !ev.Taken {
		op.Object = ev.Object
	}
	conflicts(op, ev)
	return Recorded, nil
}

// fill gives a completed operation the missing answer, from a late attempt of an older claim or from a repeat. An
// answer that contradicts the evidence does not replace the record.
func fill(op *journal.Operation, ev *Event) (Decision, error) {
	switch was := op.Answer; {
	case was.Refused == ev.Answer.Refused:
	case was.Found:
		alert(op, ev, answeredRefused)
		return Contradicted, nil
	default:
		return Replay, nil
	}
	op.Attempts += ev.Attempts
	sentAs(op, ev)
	replaced(op, *ev.Answer)
	if !ev.Taken && op.Object == "" {
		op.Object = ev.Object
	}
	conflicts(op, ev)
	return Recorded, nil
}

// sentAs records the mode of the operation's first attempt.
func sentAs(op *journal.Operation, ev *Event) {
	if op.Mode == "" && !ev.Unsent {
		op.Mode = ev.Mode
	}
	if !ev.Unsent {
		seenAs(op, ev)
	}
}

// refusalStands reports whether a refusal decides the operation, and not only the attempt. If the provider does not
// recognise the refused request, an earlier request still in flight is executed on arrival. If an earlier generation
// took effect, the operation was not refused.
func refusalStands(op *journal.Operation, ev *Event) bool {
	if op.SecondEffects > 0 {
		return false
	}
	alone := ev.Claim == op.Claim && !op.Found.MayHaveRun && !ev.Open
	return alone || remembersRefusal(op, ev.Answer)
}

// remembersRefusal reports whether the provider recognises the refused request again. A provider remembers a decline
// by a 2xx like any other success.
func remembersRefusal(op *journal.Operation, a *journal.Answer) bool {
	success := a.Status >= 200 && a.Status < 300
	return op.Terms.Remembers == memory.Everything || success && op.Terms.Remembers != memory.Nothing
}

// refused ends a claim whose refusal does not stand. A refusal of an older claim says nothing.
func refused(op *journal.Operation, ev *Event) (Decision, error) {
	if op.State != journal.StateInFlight || ev.Claim != op.Claim {
		return Ignored, nil
	}
	op.Attempts += ev.Attempts
	sentAs(op, ev)
	op.MayHaveRun, op.LastEndedAt = true, later(ev.At, ev.Last)
	op.LastAnswer = lastAnswer(op, ev.Answer)
	if applyDeferred(op, ev) {
		return Weighed, nil
	}
	op.DueAt = ev.Due
	op.Cause = "it was refused, but an earlier attempt may still take effect, and the provider remembers no refusals"
	settle(op, ev, journal.StateUnknown)
	return Recorded, nil
}

func answered(op *journal.Operation, ev *Event) {
	answer := *ev.Answer
	answer.Generation = ev.Generation
	if op.State == journal.StateCancelled || op.State == journal.StateUnknown && op.Attention != "" {
		again := *ev // a caller or hook has another outcome, and receives this one too
		again.Session, again.Delivered = "", false
		ev = &again
	}
	settle(op, ev, journal.StateCompleted)
	op.Answer = &answer
	op.MayHaveRun = true
	op.Cause = ""
	if op.SecondEffects > 0 && !answer.Refused {
		alert(op, ev, tookTwice)
	}
}

// lastAnswer returns a copy of an answer without a decision, for the record.
func lastAnswer(op *journal.Operation, a *journal.Answer) *journal.Answer {
	kept := journal.Answer{Generation: op.Generation, Status: a.Status, Header: a.Header.Clone(), Omitted: a.Omitted, Cut: a.Cut}
	if len(a.Body) <= journal.MaxLastAnswer {
		kept.Body = slices.Clone(a.Body)
	} else {
		kept.Omitted = true
	}
	return &kept
}

// release ends a claim without an answer: park, doubt or cancel.
func release(op *journal.Operation, ev *Event) (Decision, error) {
	current := op.State == journal.StateInFlight && op.Holder == ev.Session && op.Claim == ev.Claim
	if ev.Kind == EventCancel && ev.Claim == 0 {
		current = op.State == journal.StateInFlight && op.Holder == ev.Session && op.Asker == ev.Asker && ev.Asker != 0
	}
	switch {
	case ev.Open && ev.Unsent:
		return Ignored, invalid(op, ev, "an attempt can't be unsent and open")
	case op.State == journal.StateCompleted && !op.Tombstone:
		return Replay, nil
	case !current:
		return Stale, nil
	}
	if ev.LastAnswer != nil {
		op.LastAnswer = lastAnswer(op, ev.LastAnswer)
	}
	if ev.Retention != 0 {
		op.Terms.Retention = min(op.Terms.Retention, max(ev.Retention, 0))
	}
	doubted := ev.Kind == EventMarkUnknown
	op.MayHaveRun, op.Failed = op.Found.MayHaveRun || ev.Open || doubted, op.Found.Failed || ev.Failed || doubted
	sentAs(op, ev)
	if ev.Unsent {
		op.FirstSentAt = op.Found.FirstSentAt
		if op.FirstSentAt.IsZero() {
			op.SentSince, op.WindowClosed = time.Time{}, false
		}
	} else {
		op.LastEndedAt = later(ev.At, ev.Last)
	}
	op.Attempts += ev.Attempts
	op.Holder, op.Cause, op.Told = "", ev.Cause, ev.Told
	switch {
	case !ev.Busy && !ev.Unanswered:
		op.BusySince = time.Time{}
	case ev.Busy && op.BusySince.IsZero():
		op.BusySince = later(ev.At, ev.Last)
	}
	switch {
	case applyDeferred(op, ev):
		return Weighed, nil
	case doubted:
		op.DueAt = ev.Due
		settle(op, ev, journal.StateUnknown)
		return Recorded, nil
	case ev.Kind == EventCancel && !op.MayHaveRun && !(ev.Claim == 0 && op.Found.State == journal.StatePending):
		settle(op, ev, journal.StateCancelled)
		return Recorded, nil
	}
	park(op, ev)
	return Recorded, nil
}

// park leaves the operation pending. An operation that could not be sent even then does not stay pending. Nor does an
// unnamed one if its caller has an error and could not ask again.
func park(op *journal.Operation, ev *Event) {
	op.State, op.DueAt, op.DueOwn = journal.StatePending, later(ev.Due, ev.At), ev.DueOwn
	clearAttention(op)
	if op.MayHaveRun {
		p := MaySend(question(op, true, op.DueAt, ev))
		op.Cause = words.Because(op.Cause, p.Reason)
		busyTooLong := ev.Busy && certainTime(ev).Sub(op.BusySince) >= maxBusy
		if p.Answer == Never || busyTooLong {
			settle(op, ev, journal.StateUnknown)
			return
		}
		op.DueAt = later(op.DueAt, p.At)
	}
	op.WakeAt = wakeBy(op, later(op.DueAt, ev.Wake))
	switch {
	case op.ParkedSince.IsZero():
		op.ParkedSince = later(ev.At, ev.Last)
	case certainTime(ev).Sub(op.ParkedSince) >= journal.PendingAttentionAfter:
		op.Attention = words.Because("no attempt for a day has brought an outcome, or none could be made", op.Cause)
	}
	if op.Naming == journal.Named && !op.BodyWithheld || !ev.Told {
		return
	}
	ends := callersWindow(op)
	switch {
	case op.Naming != journal.Generated && (ev.At.Before(ends) || !ev.Unconfirmed.IsZero() && !over(op, ev)):
		waitsForItsCaller(op, ev, later(ends, ev.Unconfirmed))
	case op.MayHaveRun:
		settle(op, ev, journal.StateUnknown)
	default:
		settle(op, ev, journal.StateCancelled)
	}
}

// ofCancelled has the resolutions of a cancelled operation. Executed counts as a late answer, so no process sends the
// operation again.
var ofCancelled = []journal.Resolution{journal.Executed, journal.Withdraw}

func resolve(op *journal.Operation, live bool, ev *Event) (Decision, error) {
	switch {
	case op.State == journal.StateAbsent:
		return Ignored, invalid(op, ev, "there is no such operation")
	case ev.Generation != op.Generation, ev.Claim != op.Claim && ev.Resolution != journal.Executed:
		return Stale, nil
	case ev.Resolution == journal.Reinstate:
		return reinstate(op, ev)
	case ev.Resolution == journal.Executed && ev.Taken:
		return Ignored, invalid(op, ev, "the object proves another operation")
	case op.State == journal.StateCompleted && ev.Resolution == journal.Executed && ev.Object == "":
		return supply(op, ev)
	case op.State == journal.StateCancelled && slices.Contains(ofCancelled, ev.Resolution): // it continues like an unknown one
	case op.State.Settled():
		return Ignored, invalid(op, ev, "its outcome is known")
	case op.State == journal.StateInFlight && live:
		return Wait, nil
	case ev.Resolution == journal.Hold && op.State == journal.StateUnknown && !op.OnHold():
		return Ignored, invalid(op, ev, "it is unknown, and nothing sends it")
	case op.Withdrawn != nil && ev.Resolution == journal.SendAgain:
		return Ignored, invalid(op, ev, "it is withdrawn: lift that by Client.Reinstate first")
	}
	switch {
	case op.State == journal.StateInFlight && applyDeferred(op, ev):
		return Weighed, nil
	case against(op, ev):
		return Ignored, invalid(op, ev, "there is evidence that it took effect: read it, and force the decision if it is wrong")
	case ev.Resolution == journal.Withdraw:
		return withdraw(op, ev)
	}
	op.Holder = ""
	op.Resolved = resolved(ev)
	switch ev.Resolution {
	case journal.Hold:
		if op.State == journal.StateInFlight {
			sessionLost(op, ev)
		}
		op.Cause = "on hold"
		ev.Delivered = true // to its holder
		settle(op, ev, journal.StateUnknown)
		return Recorded, nil
	case journal.Executed:
		if ev.Answer == nil {
			ev.Answer = &journal.Answer{Omitted: true}
		}
		answered(op, ev)
		op.Answer.ByHand, op.Object = true, ev.Object
		return Recorded, nil
	case journal.NotExecuted:
		notExecuted(op, ev, "resolved by hand as not executed")
		return Recorded, nil
	case journal.SendAgain:
		key := ev.Key
		if op.Naming == journal.Carried || op.Key == "" {
			key = op.Key
		} else if key == "" || key == op.Key {
			return Ignored, invalid(op, ev, "needs the next generation's key")
		}
		generation(op, key, ev.Reference)
		op.NotAfter = time.Time{}           // the person who wants it sent again knows the time
		due := earlier(ev.At, op.UpdatedAt) // at once, also by other clocks behind this one
		op.State, op.DueAt, op.WakeAt = journal.StatePending, due, due
		op.SettledAt, op.Told, op.Delivered = time.Time{}, false, false
		op.DueOwn = false
		op.Cause = "resolved by hand to be sent again"
		return Recorded, nil
	}
	return Ignored, invalid(op, ev, "no such resolution")
}

// notExecuted cancels the operation by a decision of no effect.
func notExecuted(op *journal.Operation, ev *Event, cause string) {
	settle(op, ev, journal.StateCancelled)
	op.MayHaveRun, op.ByHand, op.Cause = false, true, cause
}

func resolved(ev *Event) *journal.Resolved {
	return &journal.Resolved{Resolution: ev.Resolution, By: ev.By, Why: ev.Cause, At: ev.At, Generation: ev.Generation, Claim: ev.Claim}
}

// supply gives a completed operation a missing answer, or replaces one that was not the provider's. A recognised one
// stands.
func supply(op *journal.Operation, ev *Event) (Decision, error) {
	was := op.Answer
	switch {
	case op.Tombstone:
		return Gone, nil
	case ev.Answer == nil:
		return Ignored, invalid(op, ev, "its outcome is known")
	case was.Whole() && !ev.Unrecognised, was.ByHand && !was.Omitted:
		return Ignored, invalid(op, ev, "its answer is known")
	}
	answer := *ev.Answer
	answer.ByHand = true
	replaced(op, answer)
	op.Resolved = resolved(ev)
	return Recorded, nil
}

// replaced replaces the recorded answer, and keeps an answer from a provider.
func replaced(op *journal.Operation, answer journal.Answer) {
	was := *op.Answer
	answer.Generation, answer.Replaced = was.Generation, was.Replaced
	if !was.ByHand && !was.Found {
		answer.Replaced = &was
	}
	op.Answer = &answer
}

// settle gives the operation an outcome: completed, cancelled or unknown. The session keeps the outcome until the
// delivery.
func settle(op *journal.Operation, ev *Event, to journal.State) {
	op.State = to
	op.Holder, op.Delivered = ev.Session, ev.Delivered
	if ev.Delivered || ev.HookElsewhere {
		op.Holder = ""
	}
	op.SettledAt = ev.At
	if ev.Last.Sub(ev.At) > leapMargin(op.Terms) {
		op.SettledAt = ev.Last // a clock behind it would reap the operation early
	}
	if to != journal.StateUnknown || op.DueOwn || !op.DueAt.After(certainTime(ev)) {
		op.DueAt = time.Time{} // else the provider's pause holds for every caller
	}
	op.WakeAt, op.ParkedSince = time.Time{}, time.Time{}
	clearAttention(op)
	op.Evidence = withoutAnswers(op.Evidence)
	if to != journal.StateUnknown {
		op.LastAnswer = nil
	}
	if to == journal.StateUnknown && !op.NeverLeft() {
		op.Looks, op.LookAt = 0, stamp(ev.At.Add(ev.LookAfter))
	}
}

func deliver(op *journal.Operation, ev *Event) (Decision, error) {
	if op.Delivered || op.State == journal.StateAbsent || op.State == journal.StatePending || op.State == journal.StateInFlight {
		return Ignored, nil
	}
	if ev.Outcome != journal.StateAbsent && (ev.Outcome != op.State || ev.Generation != op.Generation || ev.Attention != op.Attention) {
		return Ignored, nil // another outcome has come since, or a contradiction
	}
	op.Delivered, op.Holder = true, ""
	return Recorded, nil
}

func reap(op *journal.Operation, ev *Event) (Decision, error) {
	keep := max(ev.Keep, op.Terms.Retention)
	goes := op.State == journal.StateCancelled || op.Naming != journal.Named // a tombstone is found by what it had
	if len(op.Evidence) > 0 || goes && (op.Object != "" || op.Reference != "") {
		keep = max(keep, EvidenceKeep)
	}
	switch {
	case !op.State.Settled() || !op.Delivered || op.Tombstone:
		return Ignored, nil
	case op.State == journal.StateCancelled && op.Withdrawn != nil && op.Naming != journal.Generated:
		return Ignored, nil // without it, a caller by its name would send it
	case op.SettledAt.Add(keep).After(certainTime(ev)):
		return Ignored, nil
	case goes:
		*op = journal.Operation{}
		return Recorded, nil
	}
	op.Tombstone, op.Answer, op.Request = true, nil, journal.Request{}
	op.Compare, op.Row = nil, ""
	op.Fingerprint = "" // nothing is left of the request, not even a digest
	return Recorded, nil
}

// adopt leaves an operation without an answer pending or unknown, by the rule.
//
// A cancelled operation becomes unknown, whatever the rule says. The caller has heard that the operation had no
// effect, and expects none any more. The name was free too. So the lost part of the journal may hold a next
// generation, under a key that the rule does not know.
func adopt(op *journal.Operation, live bool, ev *Event) (Decision, error) {
	switch {
	case op.State == journal.StateAbsent || op.State == journal.StateCompleted:
		return Ignored, nil
	case op.State == journal.StateInFlight && live:
		return Wait, nil
	}
	op.MayHaveRun, op.Failed = true, true
	if op.FirstSentAt.IsZero() || op.FirstSentAt.After(op.CreatedAt) {
		now := latest(ev)
		sentFrom(op, earlier(op.CreatedAt, now)) // an enqueued one need not have moved the journal's time
		if ev.Unconfirmed.IsZero() && op.CreatedAt.Sub(now) > leapMargin(op.Terms) {
			op.WindowClosed = true // a clock that ran ahead dated its creation, which may be as old as the journal
		}
	}
	op.LastEndedAt = later(ev.At, ev.Last)
	closeWindow(op, ev)
	if op.State == journal.StateInFlight && applyDeferred(op, ev) {
		return Weighed, nil
	}
	op.Adopted = true
	const missing = "the journal was restored, and an attempt that it lacks may have sent this"
	switch op.State {
	case journal.StateUnknown:
		return Recorded, nil
	case journal.StateCancelled:
		settle(op, ev, journal.StateUnknown)
		op.ByHand, op.Cause = false, missing
		return Recorded, nil
	case journal.StateInFlight:
		sessionLost(op, ev)
	}
	op.Cause = missing
	ev.Due, ev.DueOwn, ev.Wake, ev.Told = op.DueAt, false, time.Time{}, op.Told
	park(op, ev)
	return Recorded, nil
}

func question(op *journal.Operation, mayHaveRun bool, clock time.Time, ev *Event) Question {
	q := QuestionOf(op, clock, ev.Last, ev.Unconfirmed)
	q.MayHaveRun = mayHaveRun
	return q
}

// QuestionOf returns the question for MaySend about the present operation. clock is the caller's, and last the
// journal's latest time. unconfirmed is when a clock that has jumped will be believed. Zero means that the clock is
// believed.
func QuestionOf(op *journal.Operation, clock, last, unconfirmed time.Time) Question {
	return Question{
		MayHaveRun:   op.MayHaveRun,
		Failed:       op.Failed,
		Terms:        op.Terms,
		FirstSentAt:  sentSince(op),
		SentBy:       sentBy(op),
		LastEndedAt:  op.LastEndedAt,
		WindowClosed: op.WindowClosed,
		Clock:        clock,
		Last:         last,
		Unconfirmed:  unconfirmed,
		Withdrawn:    op.Withdrawn != nil,
	}
}

func invalid(op *journal.Operation, ev *Event, reason string) error {
	return &EventError{Kind: ev.Kind, State: op.State, Reason: reason}
}

// stamp drops the part of a time that the journal does not keep.
func stamp(t time.Time) time.Time {
	return time.UnixMilli(t.UnixMilli()).UTC()
}
