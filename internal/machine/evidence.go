package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// maxEvidence limits the evidence that an operation keeps: the first and the latest.
const maxEvidence = 9

// clockMargin is the allowance for clocks that disagree about the end of an attempt.
const clockMargin = 15 * time.Minute

// leaseLookup gives the look-up of an unknown operation to one client until ev.Due, or until the client's session ends. With
// Asked it also gives a completed one whose answer is missing.
func leaseLookup(op *journal.Operation, ev *Event) (Decision, error) {
	switch {
	case ev.Due.IsZero():
		return Ignored, invalid(op, ev, "needs Due, the end of the lease")
	case ev.GivesBack && (!op.LookAt.Equal(ev.Due) || op.Looks == 0):
		return Ignored, nil // another client has it by now
	case ev.GivesBack:
		op.Looks--
		op.LookAt, op.LookedAt = ev.At, lastLooked(op)
		freeHold(op, ev.Looker)
		return Recorded, nil
	case op.State != journal.StateUnknown && !(ev.Asked && op.AnswerMissing()) || ev.From != nil && !slices.Contains(ev.From, op.Provider):
		return Ignored, nil
	case op.NeverLeft():
		return Ignored, nil
	case !ev.Asked && (op.Attention != "" || op.LookAt.After(ev.At)):
		return Ignored, nil
	case op.State == journal.StateCompleted && op.LookedAt.Before(op.SettledAt): // that look-up was for the outcome
	case ev.Asked && ev.At.Sub(op.LookedAt).Abs() < AskedLook: // a clock that was ahead keeps no caller from asking
		return Later, nil
	}
	closeRepeat(op, ev)
	op.Looks++
	op.LookedAt = ev.At
	if op.State == journal.StateUnknown && !op.Disputed {
		op.Attention, op.LookAt = "", ev.Due
		if op.Delivered || op.Holder == "" { // else a session delivers the outcome
			op.Holder = ev.Looker
		}
	}
	return Look, nil
}

// endLookup ends the hold by a session that was found dead. If the session was looking, the next look-up is due after the
// schedule's first pause. So a process that dies of look-ups makes few.
func endLookup(op *journal.Operation, ev *Event) {
	op.Holder = ""
	if !op.LookAt.IsZero() && op.LookedAt.After(lastLooked(op)) {
		op.LookAt = earlier(op.LookAt, later(ev.At, stamp(op.LookedAt.Add(ev.LookAfter))))
	}
}

// freeHold ends the hold by a session whose look-up is over.
func freeHold(op *journal.Operation, looker string) {
	if op.Holder == looker {
		op.Holder = ""
	}
}

// lastLooked returns when the latest recorded look-up began, or zero if there was none.
func lastLooked(op *journal.Operation) (at time.Time) {
	for _, e := range op.Evidence {
		if e.Source != journal.SourceEvent {
			at = later(at, e.At)
		}
	}
	return at
}

// hint makes a look-up of an unknown operation due now, or at Due. A disputed one stays with the person who decides.
func hint(op *journal.Operation, ev *Event) (Decision, error) {
	at := later(ev.At, ev.Due)
	if op.State != journal.StateUnknown || op.Disputed || op.NeverLeft() || op.Attention == "" && !op.LookAt.After(at) {
		return Ignored, nil
	}
	op.Attention, op.LookAt = "", at
	return Recorded, nil
}

// evidence applies a finding from a look-up or an event.
func evidence(op *journal.Operation, ev *Event) (Decision, error) {
	e := ev.Evidence
	switch {
	case e == nil || e.Finding < journal.FindingInconclusive || e.Finding > journal.FindingReversed:
		return Ignored, invalid(op, ev, "needs evidence with a finding")
	case op.State == journal.StateAbsent, ev.Claim < min(op.Claim, 1) || ev.Claim > op.Claim || ev.Generation < 0 || ev.Generation > op.Generation:
		return Ignored, invalid(op, ev, "no such claim or generation")
	case e.Finding.TookEffect() && ev.Object == "":
		return Ignored, invalid(op, ev, "needs the object that took effect")
	case e.Finding == journal.FindingAbsent && e.Source == journal.SourceHook && ev.Absence == nil:
		return Ignored, invalid(op, ev, "needs the look-up's own facts (Absence)")
	case ofAnotherAccount(op, ev):
		return Ignored, nil
	}
	weighed(op, ev)
	e = ev.Evidence
	switch {
	case ev.Generation < op.Generation:
		return ofEarlier(op, ev)
	case op.NeverLeft() && op.State != journal.StateInFlight && !e.Finding.TookEffect():
		return Ignored, nil
	case op.OnHold() && !op.NeverLeft() && e.Finding != journal.FindingAbsent && !ev.Taken && marks(e):
		return undecided(op, ev, e.Finding) // only a person settles it, or its own late answer
	case e.Finding.TookEffect():
		return onEffect(op, ev)
	case e.Finding == journal.FindingRefused:
		return refusedThere(op, ev)
	case e.Finding == journal.FindingAbsent && e.Source == journal.SourceHook:
		return assertedAbsent(op, ev)
	case e.Finding == journal.FindingAbsent: // an object that a list does not show may be on its way, hidden or elsewhere
		return undecided(op, ev, journal.FindingInconclusive)
	}
	return undecided(op, ev, e.Finding)
}

// weighed gives the evidence an effective basis. The caller's reference in the object is the operation's mark if no
// other operation ever had the reference. A restored journal cannot know that.
func weighed(op *journal.Operation, ev *Event) {
	e := *ev.Evidence
	if ev.Sole && !op.ReferenceOurs && !op.Adopted && e.Basis == journal.BasisFields && referenceOf(op, ev.Generation) == ev.Reference {
		e.Basis = journal.BasisReference
	}
	ev.Evidence = &e
}

// marks reports whether evidence can settle an operation: the object shows a mark of the operation, or the finding
// comes from the program's own look-up. Agreeing fields only make a candidate, for a person.
func marks(e *journal.Evidence) bool { return e.Basis >= journal.BasisPerson }

const noMark = "an object agrees with it, but shows no mark of it: compare them at the provider"

// ofAnotherAccount reports whether the evidence is of another account than the operation's.
func ofAnotherAccount(op *journal.Operation, ev *Event) bool {
	return isName(op.Account) && isName(ev.Account) && op.Account != ev.Account
}

// seenAs records the identity of the operation's first attempt or look-up.
func seenAs(op *journal.Operation, ev *Event) {
	if op.Account == "" {
		op.Account = ev.Account
	}
}

// ofEarlier applies evidence of a generation that was said, or proven, to have had no effect.
func ofEarlier(op *journal.Operation, ev *Event) (Decision, error) {
	switch {
	case !ev.Evidence.Finding.TookEffect(), Proves(op, "", ev.Object):
		return Ignored, nil // as was said; or it is known
	case ev.Taken || !left(op, ev.Generation) || !marks(ev.Evidence):
		return Ignored, nil
	case op.MayHaveRun:
		return second(op, ev)
	case op.OnHold(), outranked(op, ev):
		keep(op, ev)
		attention(op, ev, saidNotExecuted)
		return Recorded, nil
	}
	return prove(op, ev)
}

// onEffect applies evidence that the present generation took effect.
func onEffect(op *journal.Operation, ev *Event) (Decision, error) {
	switch {
	case op.NeverLeft() && op.State != journal.StateCompleted && op.State != journal.StateInFlight:
		return elsewhere(op, ev)
	case !marks(ev.Evidence):
		return undecided(op, lacking(ev, noMark), journal.FindingAmbiguous)
	case ev.Taken && !(op.State == journal.StateCompleted && journal.SameObject(op.Object, ev.Object)): // it keeps the object that it has
		return undecided(op, ev, journal.FindingAmbiguous)
	case op.State == journal.StateCompleted:
		return beside(op, ev)
	case op.State == journal.StateInFlight:
		return deferEvidence(op, ev)
	case outranked(op, ev):
		keep(op, ev)
		attention(op, ev, saidNotExecuted)
		return Recorded, nil
	case op.TookEffectOtherThan(ev.Object):
		keep(op, ev)
		attention(op, ev, twoObjects)
		return Recorded, nil
	}
	return prove(op, ev)
}

// elsewhere applies evidence for an effect of an operation that never left. If the object shows the operation's own
// key or reference, another program made the object, and a person has to decide. Any other evidence proves nothing.
func elsewhere(op *journal.Operation, ev *Event) (Decision, error) {
	if !own(op, ev.Evidence) {
		return Ignored, nil
	}
	lacking(ev, usedElsewhere).Evidence.Finding = journal.FindingAmbiguous
	keep(op, ev)
	attention(op, ev, usedElsewhere)
	return Recorded, nil
}

// own reports whether evidence shows a value that no other program should have: the operation's key, or a reference
// from the client.
func own(op *journal.Operation, e *journal.Evidence) bool {
	return e.Basis == journal.BasisKey || e.Basis == journal.BasisReference && op.ReferenceOurs
}

const (
	answeredRefused = "it was answered as refused, and took effect"

	twoObjects    = "more than one object may be this operation's: it may have taken effect twice"
	tookEarlier   = "an earlier round of it took effect after all, though a later one was begun"
	tookTwice     = "an effect was found beside its own: it took effect twice"
	usedElsewhere = "nothing of it was sent, and an object was found with its key or reference: another program may have used it"

	saidNotExecuted = "an operator decided otherwise before an object was found that agrees with it"
)

// outranked reports whether a person said that the event's generation was not executed. A person's word ranks higher
// than the event.
func outranked(op *journal.Operation, ev *Event) bool {
	r := op.Resolved
	return ev.Evidence.Basis <= journal.BasisPerson && r != nil && r.Generation == ev.Generation &&
		(r.Resolution == journal.NotExecuted || r.Resolution == journal.SendAgain)
}

// hasEffect reports whether some generation of the operation is known to have taken effect.
func hasEffect(op *journal.Operation) bool { return op.SecondEffects > 0 || op.TookEffectOtherThan("") }

// beside applies evidence of an effect to a completed operation. A late state of its object is kept, and changes nothing
// else.
func beside(op *journal.Operation, ev *Event) (Decision, error) {
	latest, repeated := latestOf(op, ev)
	switch {
	case op.Object != "" && !Proves(op, "", ev.Object) && !refusedHere(op):
		return second(op, ev)
	case refusedHere(op) && latest == 0:
		return contradicted(op, ev, answeredRefused)
	case op.AnswerMissing() && ev.Answer != nil && ev.Answer.Whole():
		keep(op, ev)
		replaced(op, shown(ev))
		op.Object = ev.Object
		return Recorded, nil
	case op.Object == "":
		op.Object = ev.Object // it proves no other operation from now on
		keep(op, ev)
		return Recorded, nil
	case !repeated && isNews(ev.Evidence, cmp.Or(latest, journal.FindingTookEffect)):
		keep(op, ev)
		return Recorded, nil
	}
	return Ignored, nil
}

// latestOf returns the latest kept finding that the object of ev took effect, or 0 if there is none, and whether the
// provider's event itself was kept.
func latestOf(op *journal.Operation, ev *Event) (latest journal.Finding, repeated bool) {
	for i := range op.Evidence {
		e := &op.Evidence[i]
		if e.Generation != ev.Generation || !e.Finding.TookEffect() || !journal.SameObject(e.Object, ev.Object) {
			continue
		}
		latest = e.Finding
		repeated = repeated || e.Finding == ev.Evidence.Finding && isOfEvent(e, ev.Evidence)
	}
	return latest, repeated
}

// isOfEvent reports whether two pieces of evidence come from one event at the provider.
func isOfEvent(a, b *journal.Evidence) bool {
	return a.Source == journal.SourceEvent && b.Source == journal.SourceEvent && a.Actor == b.Actor
}

// isNews reports whether a finding says more than the latest one about the object. An object may be reversed by several
// events.
func isNews(e *journal.Evidence, latest journal.Finding) bool {
	return e.Finding != latest || e.Finding == journal.FindingReversed && e.Source == journal.SourceEvent
}

// refusedHere reports whether the recorded answer, by the provider, says that nothing took effect.
func refusedHere(op *journal.Operation) bool {
	return op.Answer != nil && op.Answer.Refused && !op.Answer.ByHand
}

// second applies evidence of an effect beside the recorded one, or beside a request in flight.
func second(op *journal.Operation, ev *Event) (Decision, error) {
	keep(op, ev)
	alert(op, ev, tookTwice)
	op.SecondEffects++
	return SecondEffect, nil
}

// contradicted keeps evidence against an outcome that stands, for a person to look at.
func contradicted(op *journal.Operation, ev *Event, why string) (Decision, error) {
	keep(op, ev)
	alert(op, ev, why)
	return Contradicted, nil
}

// alert sets Attention of a settled operation, and offers the outcome once more if possible.
func alert(op *journal.Operation, ev *Event, why string) {
	switch {
	case op.State == journal.StateInFlight: // see applyDeferred
	case op.State == journal.StatePending:
		attention(op, ev, why)
	case op.Tombstone:
		op.Attention = why
	default:
		dispute(op, false, why)
	}
}

// attention leaves the operation unknown for a person, and does not claim that the operation ran.
func attention(op *journal.Operation, ev *Event, why string) {
	if op.State == journal.StateUnknown {
		dispute(op, ev.Delivered, why)
		return
	}
	settle(op, ev, journal.StateUnknown)
	op.ByHand, op.Cause = false, why
	dispute(op, false, why)
}

// dispute ends the look-ups for an operation if evidence contradicts other evidence, a decision or an outcome. A later
// look-up without a decision leaves the reason unchanged.
func dispute(op *journal.Operation, delivered bool, why string) {
	giveUp(op, delivered, why)
	op.Disputed = op.State == journal.StateUnknown
}

// giveUp ends the look-ups for an operation, so that a person decides. It offers the outcome, whether or not a caller
// has the outcome.
func giveUp(op *journal.Operation, delivered bool, why string) {
	op.Attention, op.LookAt = why, time.Time{}
	op.Holder, op.Delivered = "", delivered
}

// prove completes the operation by a found object.
func prove(op *journal.Operation, ev *Event) (Decision, error) {
	keep(op, ev)
	answer := shown(ev)
	ev.Answer = &answer
	answered(op, ev)
	op.Object = ev.Object
	return Recorded, nil
}

// shown returns the answer that the evidence implies.
func shown(ev *Event) journal.Answer {
	answer := journal.Answer{Omitted: true, Pointer: ev.Object}
	if ev.Answer != nil {
		answer = *ev.Answer
	}
	answer.Found = true
	answer.Refused = ev.Evidence.Finding == journal.FindingRefused
	return answer
}

// refusedThere applies evidence that the provider refused the present generation. Evidence of an effect wins over a
// refusal.
func refusedThere(op *journal.Operation, ev *Event) (Decision, error) {
	switch {
	case op.State == journal.StateCompleted:
		return Ignored, nil
	case !marks(ev.Evidence):
		return undecided(op, lacking(ev, noMark), journal.FindingAmbiguous)
	case op.State == journal.StateInFlight:
		return deferEvidence(op, ev)
	case ev.Taken:
		return undecided(op, ev, journal.FindingAmbiguous)
	case outranked(op, ev):
		return undecided(op, ev, journal.FindingRefused)
	case !isRefusal(op, *ev.Evidence) || op.TookEffectOtherThan(""):
		return undecided(op, lacking(ev, refusedInPart), journal.FindingRefused)
	}
	return prove(op, ev)
}

const refusedInPart = "the refusal may be of a part of what was sent for it"

// lacking adds to ev the reason for settling nothing, and returns ev.
func lacking(ev *Event, why string) *Event {
	e := *ev.Evidence
	e.Why = why
	ev.Evidence = &e
	return ev
}

// isRefusal reports whether the refused object surely belongs to the operation, and was all that may have run, or the
// provider recognises the refused request.
func isRefusal(op *journal.Operation, e journal.Evidence) bool {
	return op.SecondEffects == 0 && marks(&e) && op.MayHaveRun && (op.Claim == 1 && op.Attempts == 1 || op.Terms.Remembers == memory.Everything)
}

// deferEvidence defers evidence while a claim is open, whose own answer wins. applyDeferred applies it when the claim ends.
func deferEvidence(op *journal.Operation, ev *Event) (Decision, error) {
	if isKept(op, ev) {
		return Ignored, nil
	}
	keep(op, ev)
	answer := shown(ev)
	if len(answer.Body) > MaxEvidenceAnswer {
		answer.Body, answer.Omitted = nil, true
	}
	answer.Trailer, answer.Replaced = nil, nil
	op.Evidence[len(op.Evidence)-1].Answer = &answer
	return Recorded, nil
}

// applyDeferred settles an operation whose claim ended without an answer by the deferred evidence, and reports whether it did.
func applyDeferred(op *journal.Operation, ev *Event) bool {
	var best journal.Evidence
	for _, e := range op.Evidence {
		if e.Answer != nil && marks(&e) && e.Finding > best.Finding && (e.Finding != journal.FindingRefused || isRefusal(op, e)) {
			best = e
		}
	}
	op.Evidence = withoutAnswers(op.Evidence)
	switch {
	case best.Answer == nil && op.SecondEffects > 0:
		attention(op, ev, tookEarlier)
		return true
	case best.Answer == nil, op.NeverLeft() && !own(op, &best):
		return false
	case op.NeverLeft():
		attention(op, ev, usedElsewhere)
		return true
	case op.TookEffectOtherThan(best.Object):
		attention(op, ev, twoObjects)
		return true
	}
	ev.Answer, ev.Generation = best.Answer, op.Generation
	answered(op, ev)
	op.Object = best.Object
	return true
}

// DecidedByEvidence reports whether deferred evidence forbids another attempt of an operation in flight, after so many
// attempts. The evidence decides the operation once the claim has ended without an answer. Evidence for an effect of
// the present generation forbids no attempt, since the next attempt brings the answer.
func DecidedByEvidence(op *journal.Operation, attempts int) bool {
	ended := *op
	ended.MayHaveRun, ended.Attempts = true, op.Attempts+attempts
	return applyDeferred(&ended, &Event{}) && (ended.State != journal.StateCompleted || ended.Answer.Refused)
}

func withoutAnswers(list []journal.Evidence) []journal.Evidence {
	list = slices.Clone(list)
	for i := range list {
		list[i].Answer = nil
	}
	return list
}

// assertedAbsent applies the finding of the program's own look-up that the operation was not executed. The finding
// counts like an operator's decision, and never overrides an earlier one.
func assertedAbsent(op *journal.Operation, ev *Event) (Decision, error) {
	over := later(op.LastEndedAt, op.SettledAt).Add(max(op.Terms.Handling, ev.Absence.Handling) + clockMargin)
	why := ""
	switch r := op.Resolved; {
	case op.State != journal.StateUnknown:
		return Ignored, nil
	case ev.Claim != op.Claim:
		return Stale, nil
	case op.OnHold():
		why = "it is on hold"
	case op.Adopted:
		why = "the journal was restored, and an attempt that it lacks may have sent this"
	case clockWasWrong(op, ev):
		why = "a clock was wrong between its creation and the look-up"
	case r != nil && r.Generation == op.Generation && r.Resolution != journal.Reinstate:
		why = "an operator has resolved it before"
	case stamp(ev.Absence.Began).Before(over) || certainTime(ev).Before(over) || stamp(ev.Absence.Began).After(certainTime(ev)):
		why = "the program's own look-up was asked too early: the provider may still be working on it"
	case hasEffect(op):
		why = "there is evidence that it took effect"
	case slices.ContainsFunc(op.Evidence, func(e journal.Evidence) bool { return e.Generation == op.Generation && shows(&e) }):
		why = "an earlier look-up or webhook saw a trace of it"
	}
	if why != "" {
		return undecided(op, lacking(ev, why), journal.FindingInconclusive)
	}
	keep(op, ev)
	ev.Resolution, ev.By, ev.Cause = journal.NotExecuted, ev.Evidence.Rule, ev.Evidence.Why
	op.Holder, op.Resolved = "", resolved(ev)
	notExecuted(op, ev, "its own look-up says that it was not executed")
	return Recorded, nil
}

// clockWasWrong reports whether the journal's clock, or the caller's, is or was not believed.
func clockWasWrong(op *journal.Operation, ev *Event) bool {
	return op.WindowClosed || !op.SentSince.IsZero() || !ev.Unconfirmed.IsZero() || ev.Last.Sub(ev.At) > max(op.Terms.Margin(), clockMargin)
}

// undecided leaves an unknown operation unknown, until the next look-up or for a person.
func undecided(op *journal.Operation, ev *Event, finding journal.Finding) (Decision, error) {
	if op.State != journal.StateUnknown {
		return Ignored, nil
	}
	again := finding == journal.FindingAmbiguous && slices.ContainsFunc(op.Evidence, func(e journal.Evidence) bool {
		return e.Generation == op.Generation && e.Finding == journal.FindingAmbiguous
	})
	e := *ev.Evidence
	e.Finding = finding
	ev.Evidence = &e
	switch {
	case ev.Others:
		op.LeftFor += ev.Left
		if op.LeftFor < journal.PendingAttentionAfter {
			ev.Attention = ""
		}
	case e.Source != journal.SourceEvent:
		op.LeftFor = 0
	}
	keep(op, ev)
	freeHold(op, ev.Looker)
	switch {
	case op.Disputed: // it knows no more than before
		return Recorded, nil
	case again:
		dispute(op, ev.Delivered, cmp.Or(e.Why, twoObjects))
		return Recorded, nil
	case ev.Attention != "":
		giveUp(op, ev.Delivered, ev.Attention)
		return Recorded, nil
	case ev.Due.After(ev.At):
		op.Attention, op.LookAt = "", ev.Due
	}
	return Recorded, nil
}

// shows reports whether the provider has an object with a mark of the operation, even if its fate is not clear.
func shows(e *journal.Evidence) bool {
	return e.Finding >= journal.FindingInProgress || e.Finding <= journal.FindingAmbiguous && e.Object != "" && e.Basis != journal.BasisFields
}

// mayShow reports whether an object may be the operation's.
func mayShow(e *journal.Evidence) bool { return shows(e) || e.Finding == journal.FindingAmbiguous }

// isKept reports whether the same finding of this generation was kept already.
func isKept(op *journal.Operation, ev *Event) bool {
	return slices.ContainsFunc(op.Evidence, func(e journal.Evidence) bool {
		return e.Generation == ev.Generation && e.Finding == ev.Evidence.Finding && e.Object == ev.Object
	})
}

// keep adds evidence to the operation. Evidence that says the same as the latest entry replaces the entry, unless two
// events report an effect. If there is too much, keep drops the second oldest entry without a decision.
func keep(op *journal.Operation, ev *Event) {
	seenAs(op, ev)
	e := *ev.Evidence
	e.At, e.Generation, e.Object, e.Answer = ev.At, ev.Generation, ev.Object, nil
	list := slices.Clone(op.Evidence)
	if n := len(list); n > 0 {
		last := &list[n-1]
		if last.Generation == e.Generation && last.Finding == e.Finding && last.Object == e.Object && last.Source == e.Source &&
			(e.Source != journal.SourceEvent || last.Actor == e.Actor || !e.Finding.TookEffect()) {
			list = list[:n-1]
		}
	}
	list = append(list, e)
	if len(list) > maxEvidence {
		i := leastNeeded(list)
		list = slices.Delete(list, i, i+1)
	}
	op.Evidence = list
}

// leastNeeded returns the evidence to drop: the second oldest that says nothing of an object, since a seen object
// forbids an absence. If there is none, it is the second oldest that other evidence repeats, and otherwise the evidence
// of no effect.
func leastNeeded(list []journal.Evidence) int {
	for _, stays := range []func(*journal.Evidence) bool{
		mayShow,
		func(e *journal.Evidence) bool { return !isRepeated(list, e) },
		func(e *journal.Evidence) bool { return e.Finding.TookEffect() },
	} {
		for i := 1; i < len(list)-1; i++ {
			if !stays(&list[i]) {
				return i
			}
		}
	}
	return 1
}

// isRepeated reports whether another piece in the list has e's finding about e's object.
func isRepeated(list []journal.Evidence, e *journal.Evidence) bool {
	for i := range list {
		if o := &list[i]; o != e && o.Generation == e.Generation && o.Finding == e.Finding && o.Object == e.Object {
			return true
		}
	}
	return false
}

// conflicts applies deferred evidence to an operation with a new answer. The answer stands, and a person looks at a
// contradiction.
func conflicts(op *journal.Operation, ev *Event) {
	switch {
	case ev.Taken:
		alert(op, ev, "its answer shows an object that proves another operation")
	case ev.Answer.Refused && op.TookEffectOtherThan(""):
		alert(op, ev, answeredRefused)
	case ev.Object != "" && op.TookEffectOtherThan(ev.Object):
		op.SecondEffects++
		alert(op, ev, twoObjects)
	}
}

// anotherObject reports whether a later answer shows another object than the one that proves the operation.
func anotherObject(op *journal.Operation, ev *Event) bool {
	return !ev.Answer.Refused && ev.Object != "" && op.Object != "" && !Proves(op, "", ev.Object)
}

// withdraw withdraws an operation.
func withdraw(op *journal.Operation, ev *Event) (Decision, error) {
	if op.State == journal.StateInFlight {
		sessionLost(op, ev)
	}
	op.Withdrawn = resolved(ev)
	switch {
	case op.State == journal.StateCancelled || op.State == journal.StateUnknown:
		return Recorded, nil
	case op.MayHaveRun:
		op.Cause = "an operator withdrew it, and it may have run"
		settle(op, ev, journal.StateUnknown)
		return Recorded, nil
	}
	op.Cause = "an operator withdrew it"
	settle(op, ev, journal.StateCancelled)
	return Recorded, nil
}

// reinstate lifts the withdrawal, or else ends the hold.
func reinstate(op *journal.Operation, ev *Event) (Decision, error) {
	switch {
	case op.Withdrawn != nil:
		op.Withdrawn = nil
	case op.OnHold():
		op.Holder, op.Resolved, op.Cause = "", resolved(ev), "released from hold"
		op.SettledAt, op.Delivered = time.Time{}, false
		ev.Due, ev.DueOwn, ev.Wake, ev.Told = op.DueAt, false, time.Time{}, op.Told
		park(op, ev)
	default:
		return Ignored, invalid(op, ev, "it is neither withdrawn nor on hold")
	}
	return Recorded, nil
}

// against reports whether evidence says that an operation to be resolved as not executed took effect.
func against(op *journal.Operation, ev *Event) bool {
	return !ev.Forced && (ev.Resolution == journal.NotExecuted || ev.Resolution == journal.SendAgain) && hasEffect(op)
}
