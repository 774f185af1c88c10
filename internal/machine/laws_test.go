package machine_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/journal"
)

// step is one use of Next: its arguments op, live and ev, and its results.
type step struct {
	op       journal.Operation
	live     bool
	ev       machine.Event
	next     journal.Operation
	decision machine.Decision
	err      error
}

// law is a rule that every use of Next obeys, whatever the operation.
type law struct {
	name  string
	holds func(s *step) bool
}

var laws = []law{
	{"an error is an EventError, asks for nothing and changes nothing but the window", func(s *step) bool {
		var refused *machine.EventError
		return s.err == nil || errors.Is(s.err, journal.ErrInvalidEvent) && errors.As(s.err, &refused) &&
			refused.Kind == s.ev.Kind && s.decision == machine.Ignored && s.unchanged()
	}},
	{"an asker that gets only an answer changes nothing but the window", func(s *step) bool {
		switch s.decision {
		case machine.Ignored, machine.Stale, machine.Wait, machine.Replay, machine.Misuse, machine.Gone, machine.Withdrawn:
			return s.unchanged() || s.ev.Kind == machine.EventClock && s.err == nil
		}
		return true
	}},
	{"the clock changes nothing but the window and times, and not when it was first sent", func(s *step) bool {
		if s.ev.Kind != machine.EventClock {
			return true
		}
		op, next := s.op, s.next
		for _, o := range []*journal.Operation{&op, &next} {
			o.CreatedAt, o.UpdatedAt, o.SettledAt, o.LastEndedAt, o.BusySince, o.ParkedSince = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
			o.DueAt, o.WakeAt, o.LookAt, o.LookedAt, o.SentSince = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
			o.WindowClosed = s.next.WindowClosed
		}
		return reflect.DeepEqual(op, next) && (s.ev.Unconfirmed.IsZero() || s.unchanged())
	}},
	{"the clock makes no operation pause for longer than planned", func(s *step) bool {
		return s.ev.Kind != machine.EventClock || s.next.State != journal.StatePending || !s.next.DueAt.After(s.op.DueAt) || s.next.DueAt.Equal(stamped(s.ev.At)) ||
			s.next.DueAt.Equal(stamped(s.ev.Last)) // of another process, whose clock is right too
	}},
	{"the earliest possible first send is earlier than the recorded one", func(s *step) bool {
		return s.next.SentSince.IsZero() || s.next.SentSince.Before(s.next.FirstSentAt)
	}},
	{"the earliest possible first send is forgotten by a confirmed clock, and by an adoption with an earlier first send", func(s *step) bool {
		if s.op.SentSince.IsZero() || s.next.SentSince.Equal(s.op.SentSince) || !s.sameLife() {
			return true
		}
		return s.next.SentSince.IsZero() && (s.next.FirstSentAt.IsZero() ||
			s.ev.Kind == machine.EventAdopt && !s.op.SentSince.Before(s.next.FirstSentAt) ||
			s.ev.Kind == machine.EventClock && s.ev.Unconfirmed.IsZero() && !s.ev.Since.IsZero() && !s.op.FirstSentAt.Before(s.ev.Since))
	}},
	{"under an unconfirmed clock nothing is sent again, no window closes, and a reap also needs the journal's time", func(s *step) bool {
		if s.ev.Unconfirmed.IsZero() {
			return true
		}
		if s.decision == machine.Execute && s.op.MayHaveRun && s.op.State != journal.StateCancelled || s.next.WindowClosed && !s.op.WindowClosed ||
			s.ev.Kind == machine.EventReap && s.decision == machine.Recorded && s.op.SettledAt.Add(s.ev.Keep).After(s.ev.Last) {
			return false
		}
		return true
	}},
	{"a disputed operation needs attention until evidence or a person decides, and no look-up of it is planned", func(s *step) bool {
		return !s.op.Disputed || s.ev.Kind == machine.EventResolve || s.next.State != journal.StateUnknown || s.next.Disputed && s.next.Attention != "" && s.next.LookAt.IsZero()
	}},
	{"only evidence makes an operation disputed", func(s *step) bool {
		return s.op.Disputed || !s.next.Disputed || len(s.op.Evidence) > 0 || s.next.SecondEffects > 0 || s.ev.Kind == machine.EventEvidence
	}},
	{"a removed operation leaves nothing", func(s *step) bool {
		return s.op.State == journal.StateAbsent || s.next.State != journal.StateAbsent || reflect.DeepEqual(s.next, journal.Operation{})
	}},
	{"a window is never opened again within a generation", func(s *step) bool {
		return !s.op.WindowClosed || s.next.WindowClosed || !s.sameLife() || s.next.FirstSentAt.IsZero()
	}},
	{"an enqueue makes an absent or cancelled operation pending, unclaimed and unsent, not due before its time, and changes nothing otherwise", func(s *step) bool {
		if s.ev.Kind != machine.EventEnqueue || s.err != nil {
			return true
		}
		if s.next.WindowClosed && !s.op.WindowClosed {
			return false // it need not know the latest time
		}
		if s.decision != machine.Recorded {
			free := s.op.State == journal.StateAbsent || s.op.State == journal.StateCancelled
			return s.unchanged() && (s.decision == machine.Withdrawn) == (free && s.op.Withdrawn != nil) && (!free || s.op.Withdrawn != nil)
		}
		n, passed := s.next, s.ev.At
		if !s.ev.Unconfirmed.IsZero() && s.ev.Last.Before(passed) {
			passed = s.ev.Last
		}
		return (s.op.State == journal.StateAbsent || s.op.State == journal.StateCancelled) && n.State == journal.StatePending && n.Holder == "" &&
			(!n.MayHaveRun || s.op.MayHaveRun) && n.Enqueued && n.Claim == s.op.Claim && n.SettledAt.IsZero() && !n.Delivered && !n.ByHand && !n.Told &&
			n.NotAfter.Equal(s.ev.Intent.NotAfter) && n.DueAt.Equal(latest(passed, s.ev.Due)) && n.Naming == s.naming()
	}},
	{"an enqueued operation stays one when it is sent, unless it was cancelled and begun again", func(s *step) bool {
		return s.decision != machine.Execute || s.next.Enqueued == (s.op.Enqueued && s.op.State != journal.StateCancelled)
	}},
	{"nothing is sent for the first time after the time until which it may be", func(s *step) bool {
		by := s.op.NotAfter
		if s.decision != machine.Execute || s.op.MayHaveRun {
			return true
		}
		if s.op.State == journal.StateAbsent || s.op.State == journal.StateCancelled {
			by = s.ev.Intent.NotAfter
			return by.IsZero() || !s.ev.At.After(by)
		}
		return by.IsZero() || !latest(s.ev.At, s.ev.Last).After(by)
	}},
	{"an operation is cancelled as too late only if it is too late and has not run", func(s *step) bool {
		if s.ev.Kind != machine.EventBegin && s.ev.Kind != machine.EventClaim || s.next.State != journal.StateCancelled || s.op.State == journal.StateCancelled ||
			s.op.Naming != journal.Named || s.op.BodyWithheld {
			return true
		}
		return !s.op.MayHaveRun && !s.op.NotAfter.IsZero() && latest(s.ev.At, s.ev.Last).After(s.op.NotAfter) &&
			(s.ev.Unconfirmed.IsZero() || s.ev.At.After(s.op.NotAfter) && s.ev.Last.After(s.op.NotAfter))
	}},
	{"a claim's number grows by one with an Execute and never otherwise", func(s *step) bool {
		switch {
		case s.next.State == journal.StateAbsent:
			return s.decision != machine.Execute
		case s.decision != machine.Execute:
			return s.next.Claim == s.op.Claim
		case s.op.State == journal.StateAbsent:
			return s.next.Claim == 1
		}
		return s.next.Claim == s.op.Claim+1
	}},
	{"an executed operation is held by the asker and counts as sent", func(s *step) bool {
		return s.decision != machine.Execute || s.next.State == journal.StateInFlight && s.next.Holder == s.ev.Session &&
			s.next.MayHaveRun && (!s.next.FirstSentAt.IsZero() || s.ev.At.IsZero())
	}},
	{"only a Begin or a Claim leads to an Execute, never of an operation that is unknown or has an answer", func(s *step) bool {
		if s.decision != machine.Execute {
			return true
		}
		byBegin := s.ev.Kind == machine.EventBegin
		switch s.op.State {
		case journal.StateAbsent, journal.StateCancelled:
			return byBegin
		case journal.StatePending:
			return byBegin || s.ev.Kind == machine.EventClaim
		case journal.StateInFlight:
			return !s.live && (byBegin || s.ev.Kind == machine.EventClaim)
		}
		return false
	}},
	{"an operation that may have run is executed only as the resend rule allows, and not before it is due", func(s *step) bool {
		if s.decision != machine.Execute || s.op.State != journal.StatePending && s.op.State != journal.StateInFlight {
			return true
		}
		if s.op.State == journal.StatePending && s.op.DueAt.After(s.ev.At) && !s.op.DueOwn {
			return false
		}
		first := s.op.FirstSentAt
		if !s.op.SentSince.IsZero() {
			first = s.op.SentSince
		}
		return machine.SendNow == machine.MaySend(machine.Question{
			MayHaveRun: s.op.MayHaveRun, Terms: s.next.Terms, FirstSentAt: first, LastEndedAt: s.next.LastEndedAt,
			WindowClosed: s.next.WindowClosed, Clock: s.ev.At, Last: s.ev.Last, Failed: s.op.Failed, Unconfirmed: s.ev.Unconfirmed,
		}).Answer
	}},
	{"an operation that may have run is executed with its key in the form in which it was sent", func(s *step) bool {
		return s.decision != machine.Execute || !s.op.MayHaveRun || s.op.State == journal.StateCancelled || s.op.Form == "" || s.next.Form == s.op.Form
	}},
	{"an operation that is due later is executed sooner only by a caller, after a pause of ours, if no attempt may have run", func(s *step) bool {
		return s.decision != machine.Execute || s.op.State != journal.StatePending || !s.op.DueAt.After(s.ev.At) ||
			s.ev.Kind == machine.EventBegin && s.op.DueOwn && !s.op.MayHaveRun && s.ev.Intent.Patience > 0 &&
				!s.op.UpdatedAt.Add(s.ev.Intent.Patience).After(s.ev.At)
	}},
	{"the background executes no unnamed operation whose caller got an error, and none if only named ones are sent", func(s *step) bool {
		told := s.op.State == journal.StatePending && s.op.Told
		return s.ev.Kind != machine.EventClaim || s.decision != machine.Execute || !s.op.BodyWithheld && (s.op.Naming == journal.Named || !told && !s.ev.NamedOnly)
	}},
	{"a claim passes over operations of other providers, and of unknown contracts", func(s *step) bool {
		if s.ev.Kind != machine.EventClaim || s.op.State != journal.StatePending && s.op.State != journal.StateInFlight || s.op.State == journal.StateInFlight && s.live {
			return true
		}
		known := true
		if s.ev.Today != nil {
			_, known = s.ev.Today(&s.op)
		}
		return known && (s.ev.From == nil || slices.Contains(s.ev.From, s.op.Provider)) || s.unchanged() && s.decision == machine.Ignored
	}},
	{"another mode is misuse, if the operation has begun", func(s *step) bool {
		if !asks(s.ev.Kind) || s.op.State == journal.StateAbsent || s.op.State == journal.StateCancelled || s.op.Tombstone || s.err != nil {
			return true
		}
		return s.op.Mode == "" || s.ev.Intent.Mode == "" || s.op.Mode == s.ev.Intent.Mode || s.decision == machine.Misuse
	}},
	{"a person's decision applies to the state that the person saw", func(s *step) bool {
		if s.ev.Kind != machine.EventResolve || s.decision != machine.Recorded {
			return true
		}
		r := s.next.Resolved
		switch s.ev.Resolution {
		case journal.Withdraw:
			r = s.next.Withdrawn
		case journal.Reinstate:
			if s.op.Withdrawn != nil {
				return s.ev.Generation == s.op.Generation && s.next.Withdrawn == nil
			}
		}
		return s.ev.Generation == s.op.Generation && (s.ev.Resolution == journal.Executed || s.ev.Claim == s.op.Claim) &&
			r != nil && r.Resolution == s.ev.Resolution && r.By == s.ev.By && r.Why == s.ev.Cause
	}},
	{"a failure is forgotten only by a harmless release or with its generation", func(s *step) bool {
		if !s.op.Failed || s.next.Failed || !s.sameLife() {
			return true
		}
		return releases(s.ev.Kind) && s.ev.Kind != machine.EventMarkUnknown && !s.ev.Failed && !s.op.Found.Failed
	}},
	{"a generation begins only after a cancelled one or by a resolution", func(s *step) bool {
		if s.next.Generation == s.op.Generation || s.op.State == journal.StateAbsent || s.next.State == journal.StateAbsent {
			return true
		}
		return s.next.Generation == s.op.Generation+1 &&
			(s.ev.Kind == machine.EventEvidence && s.ev.Evidence.Finding == journal.FindingAbsent && s.op.State == journal.StateUnknown && s.next.State == journal.StateCancelled ||
				asks(s.ev.Kind) && s.op.State == journal.StateCancelled && (s.op.ByHand || s.op.Fingerprint != s.ev.Intent.Fingerprint) ||
				s.ev.Kind == machine.EventResolve && s.ev.Resolution == journal.SendAgain && s.decision == machine.Recorded)
	}},
	{"identity, key and request stay the same within a generation", func(s *step) bool {
		if s.op.State == journal.StateAbsent || s.next.State == journal.StateAbsent {
			return true
		}
		identity := s.next.Ref == s.op.Ref && s.next.Alias == s.op.Alias && s.next.Handle == s.op.Handle && s.next.Naming == s.op.Naming &&
			(s.next.CreatedAt.Equal(s.op.CreatedAt) || s.ev.Kind == machine.EventClock)
		if !identity || !s.sameLife() {
			return identity
		}
		if s.next.Tombstone {
			return s.next.Key == s.op.Key && (s.next.Fingerprint == "" || s.op.Tombstone)
		}
		key := s.next.Key == s.op.Key && s.next.KeyCarried == s.op.KeyCarried
		request := reflect.DeepEqual(s.next.Request, s.op.Request)
		// If no attempt may have run, the request is the latest asker's.
		taken := s.decision == machine.Execute && s.ev.Kind == machine.EventBegin && (s.op.State == journal.StateCancelled || !s.op.MayHaveRun) ||
			s.decision == machine.Recorded && s.ev.Kind == machine.EventEnqueue
		return (key || taken && s.op.Key == "") && (request || taken) && s.next.Fingerprint == s.op.Fingerprint
	}},
	{"an operation that may have run keeps its credential", func(s *step) bool {
		ran := s.op.MayHaveRun
		if s.ev.Kind == machine.EventSign {
			ran = s.op.Found.MayHaveRun
		}
		return !s.sameLife() || !ran || s.op.State == journal.StateCancelled || s.op.NeverSigned() || s.next.Tombstone || s.next.Credential == s.op.Credential
	}},
	{"terms are kept or narrowed within a generation", func(s *step) bool {
		if !s.sameLife() || s.next.Terms == s.op.Terms {
			return true
		}
		if s.ev.Kind == machine.EventClaim && s.ev.Today != nil {
			today, known := s.ev.Today(&s.op)
			return known && s.next.Terms == s.op.Terms.Narrow(today.Terms)
		}
		return asks(s.ev.Kind) && s.next.Terms == s.op.Terms.Narrow(s.ev.Intent.Terms)
	}},
	{"only the holder parks, doubts or cancels, under the current claim", func(s *step) bool {
		if !releases(s.ev.Kind) || s.decision != machine.Recorded {
			return true
		}
		unnumbered := s.ev.Kind == machine.EventCancel && s.ev.Claim == 0 && s.ev.Asker != 0 && s.op.Asker == s.ev.Asker
		return s.op.State == journal.StateInFlight && s.op.Holder == s.ev.Session && (s.op.Claim == s.ev.Claim || unnumbered)
	}},
	{"a release of an operation with an answer returns the answer", func(s *step) bool {
		answered := s.op.State == journal.StateCompleted && !s.op.Tombstone
		return !releases(s.ev.Kind) || s.err != nil || answered == (s.decision == machine.Replay)
	}},
	{"an answer changes only if it is not whole, or if a person replaces one that is not the provider's; it ends only by a reap", func(s *step) bool {
		if s.op.State != journal.StateCompleted {
			return true
		}
		if s.ev.Kind == machine.EventResolve && s.decision == machine.Recorded && s.ev.Resolution != journal.Reinstate {
			was, is := s.op.Answer, s.next.Answer
			return s.ev.Resolution == journal.Executed && (was.Omitted || was.Cut || s.ev.Unrecognised && !was.ByHand) &&
				is.ByHand && is.Generation == was.Generation && (was.ByHand || was.Found || reflect.DeepEqual(is.Replaced, was))
		}
		if s.decision == machine.Execute || s.op.Tombstone && !s.next.Tombstone {
			return false
		}
		if was, is := s.op.Answer, s.next.Answer; was != nil && is != nil && (was.Omitted || was.Cut) && !reflect.DeepEqual(is, was) {
			fills := !is.Omitted && !is.Cut && !is.ByHand && is.Generation == was.Generation && is.Refused == was.Refused &&
				(was.ByHand || was.Found || reflect.DeepEqual(is.Replaced, was)) && s.next.State == journal.StateCompleted
			switch s.ev.Kind {
			case machine.EventEvidence:
				return fills && s.op.AnswerMissing() && is.Found && s.next.Object == s.ev.Object && s.ev.Evidence.Basis >= journal.BasisPerson
			case machine.EventComplete:
				return fills && !is.Found && s.ev.Generation == was.Generation
			}
		}
		kept := s.next.State == journal.StateCompleted && reflect.DeepEqual(s.next.Answer, s.op.Answer) && s.next.Tombstone == s.op.Tombstone
		return kept || s.ev.Kind == machine.EventReap && s.op.Delivered
	}},
	{"a named operation with an answer leaves a tombstone", func(s *step) bool {
		return s.op.State != journal.StateCompleted || s.op.Naming != journal.Named || s.next.State == journal.StateCompleted
	}},
	{"only an operation that is settled, delivered and past its keep is reaped", func(s *step) bool {
		reaped := s.op.State != journal.StateAbsent && s.next.State == journal.StateAbsent || s.next.Tombstone && !s.op.Tombstone
		if reaped && s.op.State == journal.StateCancelled && s.op.Withdrawn != nil && s.op.Naming != journal.Generated {
			return false // a caller that asks by its name would send it
		}
		return !reaped || s.ev.Kind == machine.EventReap && s.op.State.Settled() && s.op.Delivered &&
			!s.op.SettledAt.Add(max(s.ev.Keep, s.op.Terms.Retention)).After(s.ev.At)
	}},
	{"the first send moves only back to what the claim found, and only if nothing was sent, or by an adoption to the creation, but not beyond the journal's time", func(s *step) bool {
		if !s.sameLife() || s.op.FirstSentAt.IsZero() || s.next.FirstSentAt.Equal(s.op.FirstSentAt) {
			return true
		}
		if s.ev.Kind == machine.EventAdopt {
			seen := s.ev.Last
			if s.ev.Unconfirmed.IsZero() {
				seen = latest(s.ev.At, s.ev.Last)
			}
			return s.op.FirstSentAt.After(s.op.CreatedAt) &&
				(s.next.FirstSentAt.Equal(s.op.CreatedAt) || s.next.FirstSentAt.Equal(seen) && s.op.CreatedAt.After(s.next.FirstSentAt))
		}
		return releases(s.ev.Kind) && s.ev.Unsent && s.next.FirstSentAt.Equal(s.op.Found.FirstSentAt)
	}},
	{"only a harmless release or a resolution takes back that an operation may have run", func(s *step) bool {
		if !s.op.MayHaveRun || s.next.MayHaveRun || !s.sameLife() {
			return true
		}
		return releases(s.ev.Kind) && s.ev.Kind != machine.EventMarkUnknown && !s.ev.Open && !s.op.Found.MayHaveRun ||
			s.ev.Kind == machine.EventResolve && s.ev.Resolution == journal.NotExecuted
	}},
	{"nothing is cancelled by a release that may have run", func(s *step) bool {
		return !releases(s.ev.Kind) || s.decision != machine.Recorded || s.next.State != journal.StateCancelled ||
			!s.ev.Open && !s.op.Found.MayHaveRun
	}},
	{"a doubt is unknown", func(s *step) bool {
		return s.ev.Kind != machine.EventMarkUnknown || s.decision != machine.Recorded || s.next.State == journal.StateUnknown && s.next.MayHaveRun
	}},
	{"a new outcome belongs to the session that led to it until it is delivered", func(s *step) bool {
		if s.next.State <= journal.StateInFlight || s.next.State == s.op.State || answersAnew(s) || s.next.Attention != "" {
			return true
		}
		if s.ev.Delivered || s.ev.Kind == machine.EventResolve && s.ev.Resolution == journal.Hold && s.decision != machine.Weighed {
			return s.next.Delivered && s.next.Holder == ""
		}
		return !s.next.Delivered && s.next.Holder == s.ev.Session
	}},
	{"an answer after another delivered outcome has no holder, and is offered", func(s *step) bool {
		return !answersAnew(s) || !s.next.Delivered && s.next.Holder == ""
	}},
	{"a new outcome that needs attention has no holder, and is offered", func(s *step) bool {
		isNew := s.next.State > journal.StateInFlight && s.next.State != s.op.State
		return !isNew || s.next.Attention == "" || !s.next.Delivered && s.next.Holder == ""
	}},
	{"the time since which an operation is parked stays until it has an outcome, or its next generation", func(s *step) bool {
		kept := s.next.ParkedSince.Equal(s.op.ParkedSince) || s.ev.Kind == machine.EventClock && s.next.ParkedSince.Equal(stamped(s.ev.At))
		return s.op.ParkedSince.IsZero() || kept || s.next.State > journal.StateInFlight || !s.sameLife() || s.decision == machine.Weighed
	}},
	{"a pending operation gets a reason for attention only if it is parked a day after the first time, by a time that has passed", func(s *step) bool {
		passed := stamped(s.ev.At)
		if !s.ev.Unconfirmed.IsZero() && s.ev.Last.Before(passed) {
			passed = s.ev.Last
		}
		return s.next.State != journal.StatePending || s.next.Attention == "" || s.next.Attention == s.op.Attention && s.op.State == journal.StatePending ||
			!s.op.ParkedSince.IsZero() && passed.Sub(s.op.ParkedSince) >= journal.PendingAttentionAfter
	}},
	{"a session that looks for an operation has it until the look-up is over or the session dies", func(s *step) bool {
		looks := s.op.State == journal.StateUnknown && s.next.State == journal.StateUnknown && !s.next.LookAt.IsZero()
		delivers := s.op.Holder != "" && !s.op.Delivered
		switch {
		case looks && s.ev.Kind == machine.EventLook && s.decision == machine.Look:
			return s.next.Holder == s.ev.Looker || delivers && s.next.Holder == s.op.Holder
		case looks && s.op.Delivered && s.ev.Kind == machine.EventClaim && s.decision == machine.Recorded:
			begun := s.op.LookedAt.Add(s.ev.LookAfter)
			return s.next.Holder == "" && !s.live && (!s.next.LookAt.Before(begun) || s.next.LookAt.Equal(s.op.LookAt))
		}
		return true
	}},
	{"an operation that becomes pending has no holder and a time to wake", func(s *step) bool {
		return s.next.State != journal.StatePending || s.op.State == journal.StatePending || s.next.Holder == "" &&
			(!s.next.WakeAt.IsZero() || s.ev.At.IsZero())
	}},
	{"only itself, an answer or the clock disturbs a live holder", func(s *step) bool {
		if s.op.State != journal.StateInFlight || !s.live || s.next.State == journal.StateInFlight && s.next.Claim == s.op.Claim {
			return true
		}
		return releases(s.ev.Kind) || s.ev.Kind == machine.EventComplete
	}},
	{"an adopted operation without an answer counts as sent from its creation, and is pending or unknown", func(s *step) bool {
		if s.ev.Kind != machine.EventAdopt || s.decision != machine.Recorded {
			return s.ev.Kind != machine.EventAdopt || s.op.State == journal.StateAbsent || s.op.State == journal.StateCompleted ||
				s.op.State == journal.StateInFlight && s.live || s.decision == machine.Weighed
		}
		stays := s.op.State == journal.StatePending || s.op.State == journal.StateInFlight
		return s.next.MayHaveRun && !s.next.FirstSentAt.After(s.op.CreatedAt) && s.next.LastEndedAt.Equal(latest(s.ev.At, s.ev.Last)) &&
			(s.next.State == journal.StateUnknown || s.next.State == journal.StatePending && stays)
	}},
	{"proof of second effects is never dropped", func(s *step) bool {
		if s.next.State == journal.StateAbsent {
			return true
		}
		grows := s.decision == machine.SecondEffect ||
			s.ev.Kind == machine.EventComplete && s.decision == machine.Recorded && s.next.SecondEffects > s.op.SecondEffects && s.next.Attention != ""
		return s.next.SecondEffects == s.op.SecondEffects && !grows || s.next.SecondEffects == s.op.SecondEffects+1 && grows
	}},
}

func asks(k machine.EventKind) bool { return k == machine.EventBegin || k == machine.EventEnqueue }

// answersAnew reports whether the operation was cancelled or needed attention, and has an answer now.
func answersAnew(s *step) bool {
	return s.next.State == journal.StateCompleted && (s.op.State == journal.StateCancelled || s.op.State == journal.StateUnknown && s.op.Attention != "")
}

func releases(k machine.EventKind) bool {
	return k == machine.EventPark || k == machine.EventMarkUnknown || k == machine.EventCancel
}

// sameLife reports whether the operation was there before and after, in one generation.
func (s *step) sameLife() bool {
	return s.op.State != journal.StateAbsent && s.next.State != journal.StateAbsent && s.op.Generation == s.next.Generation
}

// naming is the operation's naming after the step: its own, or its intent's.
func (s *step) naming() journal.Naming {
	if s.op.State == journal.StateAbsent {
		return s.ev.Intent.Naming
	}
	return s.op.Naming
}

func (s *step) unchanged() bool {
	op, next := s.op, s.next
	if next.WindowClosed {
		op.WindowClosed = true
	}
	return reflect.DeepEqual(op, next)
}

// brokenLaws applies Next twice and names the laws that it breaks.
func brokenLaws(op journal.Operation, live bool, ev machine.Event) []string {
	opBefore, evBefore := copyOperation(op), copyEvent(ev)
	s := &step{op: op, live: live, ev: ev}
	s.next, s.decision, s.err = machine.Next(op, live, ev)
	again, decision, err := machine.Next(op, live, ev)

	var broken []string
	if !reflect.DeepEqual(op, opBefore) || !reflect.DeepEqual(withoutFunc(ev), withoutFunc(evBefore)) {
		broken = append(broken, "the inputs are not written to")
	}
	if !reflect.DeepEqual(again, s.next) || decision != s.decision || !reflect.DeepEqual(err, s.err) {
		broken = append(broken, "the same inputs lead to the same end")
	}
	for _, l := range laws {
		if !l.holds(s) {
			broken = append(broken, l.name)
		}
	}
	return broken
}

func TestTheLawsHoldForAnyInput(t *testing.T) {
	d := seeded(11)
	for i := range sample.Size(5_000, 15_000) {
		op, live, ev := drawStep(d)
		require.Emptyf(t, brokenLaws(op, live, ev), "case %d: %+v\nlive %v\n%+v", i, op, live, ev)
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte(nil))
	d := seeded(12)
	for range 50 {
		input := make([]byte, 64)
		for i := range input {
			input[i] = byte(d(256))
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		op, live, ev := drawStep(fromBytes(input))
		require.Emptyf(t, brokenLaws(op, live, ev), "%+v\nlive %v\n%+v", op, live, ev)
	})
}

// fromBytes draws from input, and then only zeros.
func fromBytes(input []byte) draw {
	return func(n int) int {
		if len(input) == 0 {
			return 0
		}
		b := input[0]
		input = input[1:]
		return int(b) % n
	}
}

// drawStep makes an operation, which need not follow from any history, and an event.
func drawStep(d draw) (journal.Operation, bool, machine.Event) {
	near := func() time.Time {
		if d.oneIn(8) {
			return time.Time{}
		}
		return noon.Add(time.Duration(d(100)-60) * time.Hour / 2)
	}
	op := journal.Operation{State: journal.State(d(len(journal.States) + 1))}
	if op.State != journal.StateAbsent {
		op = operation(journal.Naming(d(3)), drawTerms(d))
		op.State = journal.State(1 + d(len(journal.States)))
		op.Key = pick(d, "its key", "", "another key")
		op.Generation, op.Claim = d(3), int64(d(4))
		op.Holder = pick(d, "", "A", "B")
		op.MayHaveRun, op.FirstSentAt = d.oneIn(2), near()
		op.Found = journal.Found{MayHaveRun: d.oneIn(2), FirstSentAt: pick(d, time.Time{}, op.FirstSentAt)}
		op.LastEndedAt, op.WindowClosed, op.BusySince = near(), d.oneIn(6), near()
		op.SettledAt, op.DueAt, op.WakeAt = near(), near(), near()
		op.Told, op.ByHand, op.Delivered = d.oneIn(2), d.oneIn(3), d.oneIn(2)
		op.SecondEffects = d(2)
		op.Failed, op.Found.Failed, op.DueOwn, op.BodyWithheld = d.oneIn(2), d.oneIn(2), d.oneIn(2), d.oneIn(5)
		op.Found.State = pick(d, journal.StateAbsent, journal.StateCancelled, journal.StatePending)
		op.Mode, op.Form = pick(d, "", "test", "live"), pick(d, "", "header A", "header B")
		op.Asker = int64(d(2))
		if !op.FirstSentAt.IsZero() && d.oneIn(4) {
			op.SentSince = op.FirstSentAt.Add(-pick(d, 48*time.Hour, time.Minute))
		}
		if d.oneIn(3) {
			op.Resolved = &journal.Resolved{Resolution: journal.Resolution(1 + d(5)), By: "somebody"}
		}
		op.Credential = pick(d, "", "digest 1", journal.Unsigned)
		op.Account, op.Reference, op.ReferenceOurs = pick(d, "", "acct_1"), pick(d, "", "ref-1"), d.oneIn(2)
		if op.State == journal.StateUnknown {
			op.LookAt, op.Looks, op.LookedAt = near(), d(3), near()
		}
		if op.State > journal.StateInFlight && d.oneIn(4) {
			op.Attention, op.LookAt = "somebody has to see to it", time.Time{}
			op.Disputed = op.State == journal.StateUnknown && d.oneIn(2)
		}
		if op.State <= journal.StateInFlight {
			op.ParkedSince = near()
		}
		if op.State == journal.StatePending && !op.ParkedSince.IsZero() && d.oneIn(4) {
			op.Attention = "somebody has to see to it"
		}
		if op.State > journal.StateInFlight && d.oneIn(6) {
			op.Withdrawn = &journal.Resolved{Resolution: journal.Withdraw, By: "somebody"}
		}
		for range d(3) {
			e := journal.Evidence{At: near(), Generation: d(op.Generation + 1), Finding: journal.Finding(1 + d(7)), Basis: journal.Basis(d(5)), Source: journal.SourceLook}
			if e.Finding >= journal.FindingRefused {
				e.Object = pick(d, "payment pay_1", "payment pay_2")
				if op.State == journal.StateInFlight && e.Generation == op.Generation {
					e.Answer = &journal.Answer{Status: 200, Refused: e.Finding == journal.FindingRefused, Found: true}
				}
			}
			op.Evidence = append(op.Evidence, e)
		}
		op.Adopted = d.oneIn(8)
		op.Enqueued = op.Naming == journal.Named && d.oneIn(3)
		if d.oneIn(3) {
			op.NotAfter = noon.Add(time.Duration(d(80)-60) * time.Hour / 4)
		}
		if op.State == journal.StateCompleted {
			op.Object = pick(d, "", "payment pay_1", "payment pay_2")
			op.Answer = &journal.Answer{Generation: op.Generation, Status: 201, Omitted: d.oneIn(4), Cut: d.oneIn(4), ByHand: d.oneIn(4)}
			op.Tombstone = d.oneIn(4)
		}
	}
	ev := drawEvent(d, op)
	ev.At, ev.Last = near(), near()
	if d.oneIn(2) {
		ev.Last = latest(ev.At, ev.Last)
	}
	if d.oneIn(5) {
		ev.Unconfirmed = latest(noon, ev.At).Add(time.Duration(1+d(10)) * time.Minute)
	}
	if ev.Kind == machine.EventClock && d.oneIn(2) {
		ev.Since, ev.Last, ev.Unconfirmed = near(), op.SentSince, time.Time{}
	}
	return op, d.oneIn(2), ev
}

// drawEvent makes an event that mostly fits the operation.
func drawEvent(d draw, op journal.Operation) machine.Event {
	ev := begin(op.Naming, drawTerms(d))
	ev.Kind = machine.EventKind(1 + d(16))
	ev.Credential = pick(d, "", "digest 1", "digest 2")
	if d.oneIn(3) {
		ev.Intent.NotAfter = noon.Add(time.Duration(d(80)-30) * time.Hour / 4)
	}
	ev.Intent.Fingerprint = pick(d, "the request", "the request", "another request")
	if d.oneIn(2) {
		ev.Intent.NextKey = func(generation int) string { return fmt.Sprintf("key %d", generation) }
	}
	ev.Session = pick(d, op.Holder, op.Holder, "A", "B", "")
	ev.Claim, ev.Generation = op.Claim, op.Generation
	if d.oneIn(4) {
		ev.Claim, ev.Generation = int64(d(5)-1), d(4)-1
	}
	if !d.oneIn(6) {
		ev.Answer = &journal.Answer{Status: pick(d, 200, 402), Refused: d.oneIn(3), Header: map[string][]string{"Request-Id": {"r"}}}
	}
	ev.Due = noon.Add(time.Duration(d(60)-20) * time.Hour)
	ev.Cause, ev.Attempts = "503", d(3)
	ev.Open, ev.Unsent, ev.Busy = d.oneIn(3), d.oneIn(3), d.oneIn(4)
	ev.Told, ev.Delivered, ev.NamedOnly = d.oneIn(2), d.oneIn(3), d.oneIn(6)
	ev.Failed, ev.DueOwn, ev.Asker, ev.Mode = d.oneIn(3), d.oneIn(2), int64(d(3)), pick(d, "", "test", "live")
	ev.Intent.Mode, ev.Intent.Form, ev.Intent.BodyWithheld = pick(d, op.Mode, "", "test", "live"), pick(d, op.Form, "header A", "header B"), op.BodyWithheld
	ev.Intent.Request.Header = map[string][]string{"Date": {pick(d, "yesterday", "today")}}
	ev.Intent.Patience = pick(d, 0, time.Minute, 2*time.Hour)
	if ev.Kind == machine.EventClaim {
		ev.From = pick(d, nil, []string{"", "stripe"}, []string{"stripe"}, []string{"adyen"})
		if today, known := (machine.Today{Terms: drawTerms(d), Form: pick(d, op.Form, "header A")}), !d.oneIn(5); !d.oneIn(3) {
			ev.Today = func(*journal.Operation) (machine.Today, bool) { return today, known }
		}
	}
	ev.Resolution, ev.Unrecognised, ev.By = journal.Resolution(d(8)), d.oneIn(3), pick(d, "", "ops@example.com")
	ev.Key = pick(d, "its next key", "")
	ev.Forced, ev.Taken, ev.Asked, ev.Looking = d.oneIn(3), d.oneIn(6), d.oneIn(3), d.oneIn(2)
	ev.Object, ev.Account, ev.Attention = pick(d, "payment pay_1", "payment pay_2", ""), pick(d, "", "acct_1", "acct_2"), pick(d, "", "", "403")
	if ev.Kind == machine.EventEvidence {
		ev.Evidence = &journal.Evidence{Source: pick(d, journal.SourceLook, journal.SourceHook, journal.SourceEvent), Finding: journal.Finding(1 + d(7)), Basis: journal.Basis(d(5))}
		ev.Absence = &machine.Absence{Began: noon, Handling: 10 * time.Minute}
	}
	ev.Keep = time.Duration(d(100)) * time.Hour
	ev.Looker, ev.LookAfter = pick(d, op.Holder, "A", "B", ""), time.Duration(d(20))*time.Minute
	return ev
}

func copyOperation(op journal.Operation) journal.Operation {
	op.Request, op.Answer = copyRequest(op.Request), copyAnswer(op.Answer)
	return op
}

func copyEvent(ev machine.Event) machine.Event {
	ev.Answer = copyAnswer(ev.Answer)
	if ev.Intent != nil {
		intent := *ev.Intent
		intent.Request = copyRequest(intent.Request)
		ev.Intent = &intent
	}
	return ev
}

func copyRequest(r journal.Request) journal.Request {
	r.Header, r.Body = maps.Clone(r.Header), slices.Clone(r.Body)
	r.WithheldHeaders, r.WithheldQuery = slices.Clone(r.WithheldHeaders), slices.Clone(r.WithheldQuery)
	return r
}

func copyAnswer(a *journal.Answer) *journal.Answer {
	if a == nil {
		return nil
	}
	c := *a
	c.Header, c.Trailer, c.Body = maps.Clone(a.Header), maps.Clone(a.Trailer), slices.Clone(a.Body)
	return &c
}

// withoutFunc is ev without its function, which reflect can't compare.
func withoutFunc(ev machine.Event) machine.Event {
	ev = copyEvent(ev)
	ev.Today = nil
	if ev.Intent != nil {
		ev.Intent.NextKey = nil
	}
	return ev
}

func stamped(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }
