package rowstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// prepared is an event whose parts its caller has encoded.
type prepared struct {
	machine.Event
	name            Digest      // of Ref
	of              journal.Ref // the operation that the parts are encoded for
	request, answer *Part
	answered        journal.Answer // that answer encodes
}

// prepare encodes an event's parts before the transaction.
func (s *Store) prepare(ev machine.Event) *prepared {
	p := &prepared{Event: ev, name: NameDigest(&s.key, ev.Ref)}
	if ev.Evidence != nil && ev.Answer != nil { // it is kept with the evidence
		own := *ev.Answer
		own.Header, own.Trailer, own.Body = ev.Answer.Header.Clone(), ev.Answer.Trailer.Clone(), bytes.Clone(ev.Answer.Body)
		p.Event.Answer = &own
	}
	if ev.Kind == machine.EventComplete && ev.Answer != nil {
		p.answered = *ev.Answer
		p.answered.Generation = ev.Generation
	}
	p.encode(s.codec, ev.Ref)
	return p
}

// encode encodes the event's parts for an operation.
func (p *prepared) encode(c format.Codec, of journal.Ref) {
	p.of = of
	if p.Intent != nil {
		p.request = encodeRequest(c, of, &p.Intent.Request)
	}
	if p.Kind == machine.EventComplete && p.Answer != nil {
		p.answer = encodeAnswer(c, of, &p.answered)
	}
}

func encodeRequest(c format.Codec, of journal.Ref, r *journal.Request) *Part {
	head, body := c.EncodeRequest(of, r)
	return &Part{head, body}
}

func encodeAnswer(c format.Codec, of journal.Ref, a *journal.Answer) *Part {
	head, body := c.EncodeAnswer(of, a)
	return &Part{head, body}
}

// size returns how many bytes of parts the event brings.
func (p *prepared) size() int {
	_, request := p.request.bytes()
	_, answer := p.answer.bytes()
	return len(request) + len(answer)
}

// keys adds what the event reads by name, handle and mark.
func (p *prepared) keys(key *format.HashKey, sure bool, k *Keys) {
	if p.Handle != 0 {
		k.Handles = append(k.Handles, p.Handle)
	} else if (!p.New || sure) && (p.Ref != journal.Ref{} || p.Kind == machine.EventBegin) {
		k.Names = append(k.Names, p.name)
	}
	if p.Intent != nil {
		for _, name := range p.Intent.Aliases() {
			k.Names = append(k.Names, NameDigest(key, name))
		}
	}
	if store.NamesObject(p.Event) {
		k.Marks = append(k.Marks, key.OfMark(byte(store.TakenBy(p.Event)), store.MarkValue(store.TakenBy(p.Event), p.Object)))
	}
}

// outcome is a machine.Result whose parts are still encoded.
type outcome struct {
	it                       *item // nil if there is no operation
	decision                 machine.Decision
	last, unconfirmed, ahead time.Time
	request                  *journal.Request // the caller's own, if it was recorded
	answer                   *journal.Answer  // the new one
}

// apply applies an event after it has seen the caller's clock.
func (b *batch) apply(p *prepared) (*outcome, error) {
	if err := b.mayApply(p); err != nil {
		return nil, err
	}
	if store.NeedsSession(p.Kind) {
		if err := b.s.sessions.require(p.Session); err != nil {
			return nil, err
		}
	}
	if err := b.see(p.At); err != nil {
		return nil, err
	}
	e, err := b.named(p)
	if err != nil {
		return nil, err
	}
	if holder, err := b.rival(e, p); holder != nil || err != nil {
		return b.misuse(holder, p), err
	}
	return b.decide(e, p)
}

// mayApply returns ErrRestored if the event would send, decide or forget by records with a possible gap. Without a key of a
// sealed journal, mayApply returns ErrSealed for such an event. A late answer is recorded without a key too.
func (b *batch) mayApply(p *prepared) error {
	if !store.NeedsTrust(p.Kind) {
		return nil
	}
	err := b.head.trusted()
	if err == nil && (needsKey(p.Kind) || p.Kind == machine.EventResolve && p.Answer != nil) {
		err = b.s.hasKey(&b.head)
	}
	return err
}

// rival returns another operation that has one of the intent's names. Such a rival prevents the event's begin.
func (b *batch) rival(e *entry, p *prepared) (*entry, error) {
	if p.Intent == nil {
		return nil, nil
	}
	var op journal.Operation
	if e != nil {
		op = e.now.op
	}
	for _, name := range p.Intent.Rivals(&op) {
		holder, err := b.byName(name, NameDigest(&b.s.key, name))
		if err != nil {
			return nil, err
		}
		if holder != nil && machine.YieldsTo(&op, &holder.now.op) {
			_, err := b.opened(holder)
			return holder, err
		}
	}
	return nil, nil
}

func (b *batch) misuse(holder *entry, p *prepared) *outcome {
	if holder == nil {
		return nil
	}
	out := b.clock.outcome(p.At)
	out.decision, out.it = machine.Misuse, holder.now
	return out
}

// decide runs Next on an entry, nil if there is no operation, and notes the result.
func (b *batch) decide(e *entry, p *prepared) (*outcome, error) {
	b.tell(e)
	op, live, err := b.asNextReads(e, p)
	if err != nil {
		return nil, err
	}
	out := b.clock.outcome(p.At)
	ev := p.Event
	if op.SealedBy != "" {
		ev.LastAnswer = nil // it can't go beside what no one here can read
	}
	ev.Last, ev.Unconfirmed, ev.Ahead = out.last, out.unconfirmed, out.ahead
	if ev.Taken, err = b.taken(&op, &ev); err != nil {
		return nil, err
	}
	if ev.Sole, err = b.sole(&op, &ev); err != nil {
		return nil, err
	}
	next, decision, err := callNext(op, live, ev)
	if err != nil {
		return nil, err
	}
	out.decision = decision
	if e, err = b.record(e, p, &op, &next, out); err != nil || e == nil {
		return out, err
	}
	out.it = e.now
	if e.now == nil || decision == machine.Recorded || out.request != nil {
		return out, nil
	}
	return out, b.readWhole(e)
}

// callNext runs Next. A panic in an event's function becomes the caller's error.
func callNext(op journal.Operation, live bool, ev machine.Event) (next journal.Operation, decision machine.Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a function of the %v event panicked, and nothing was recorded: %v", ev.Kind, p)
		}
	}()
	return machine.Next(op, live, ev)
}

// asNextReads returns the operation for Next, and whether the operation's holder lives. A claim, a begin and a
// look-up need the operation's parts, and so does an event that replaces an answer. Damaged parts prevent the
// decision.
func (b *batch) asNextReads(e *entry, p *prepared) (op journal.Operation, live bool, err error) {
	if e == nil {
		return op, false, nil
	}
	op = e.now.op
	if needsKey(p.Kind) || p.Kind == machine.EventResolve && op.State == journal.StateInFlight && len(op.Evidence) > 0 {
		if err := sealedOperation(&op); err != nil {
			return op, false, err
		}
	}
	if readsLife(p.Kind, &op) {
		live, err = b.live(op.Holder)
		if err != nil && !(p.Kind == machine.EventAdopt && errors.Is(err, journal.ErrRestored)) { // its process runs elsewhere, or no more
			return op, live, err
		}
	}
	replaces := op.State == journal.StateCompleted && (p.Kind == machine.EventComplete || p.Kind == machine.EventResolve || p.Kind == machine.EventEvidence)
	if !replaces && p.Kind != machine.EventClaim && p.Kind != machine.EventBegin && p.Kind != machine.EventLook {
		return op, live, nil
	}
	op, err = b.opened(e)
	return op, live, err
}

// opened returns an entry's whole operation, or ErrSealed.
func (b *batch) opened(e *entry) (op journal.Operation, err error) {
	if err = b.readWhole(e); err != nil {
		return op, err
	}
	if op, err = e.now.operation(b.s.codec, true); err == nil {
		err = sealedOperation(&op)
	}
	return op, err
}

// readsLife reports whether an event of this kind depends on whether the operation's holder lives.
func readsLife(kind machine.EventKind, op *journal.Operation) bool {
	switch kind {
	case machine.EventClaim:
		return op.Holder != ""
	case machine.EventBegin, machine.EventResolve, machine.EventAdopt:
		return op.Holder != "" && op.State == journal.StateInFlight
	}
	return false
}

// record notes the operation that Next returned, and returns the operation's entry. Nil means no operation.
func (b *batch) record(e *entry, p *prepared, op, next *journal.Operation, out *outcome) (*entry, error) {
	asked := store.TakesRequest(p.Kind, out.decision, next)
	answered := next.Answer != op.Answer
	if answered {
		out.answer = next.Answer
	}
	switch {
	case next.State == journal.StateAbsent && e == nil:
		return nil, nil
	case next.State == journal.StateAbsent:
		b.set(e, nil)
		return e, nil
	case !asked && !answered && e != nil && !changed(p.Kind, op, next, out.decision):
		return e, nil
	}
	if e == nil {
		var err error
		if e, err = b.insert(); err != nil {
			return nil, err
		}
		next.Handle = e.handle
	}
	now := e.now.after(next)
	if now.box == nil { // it was left out, or the private fields have changed
		if err := sealedOperation(&now.op); err != nil {
			return e, err
		}
	}
	now.told = b.leaps.Number
	if b.s.codec.Ring != nil && next.Ref != p.of { // the event has another name of it, or none
		p.encode(b.s.codec, next.Ref)
	}
	switch {
	case asked:
		now.request, now.requestSum = p.request, format.SumIn(p.request.Head)
		out.request = &p.Intent.Request
	case next.Tombstone && !op.Tombstone:
		now.request, now.answer, now.requestSum, now.answerSum, now.whole = nil, nil, 0, 0, true
	case answered:
		now.answer = p.answerOf(b.s.codec, next)
		now.answerSum = format.SumIn(now.answer.Head)
	}
	b.set(e, now)
	return e, nil
}

// changed reports whether Next changed the record. Most decisions change nothing but the window, unless the event is the
// clock's.
func changed(kind machine.EventKind, op, next *journal.Operation, decision machine.Decision) bool {
	switch decision {
	case machine.Ignored, machine.Stale, machine.Wait, machine.Replay, machine.Misuse, machine.Gone, machine.Withdrawn:
		if kind != machine.EventClock {
			return next.WindowClosed != op.WindowClosed && next.Terms.Window() > 0
		}
	}
	before, after := *op, *next
	before.Request, after.Request, before.Answer, after.Answer = journal.Request{}, journal.Request{}, nil, nil
	return next.Tombstone != op.Tombstone || store.Changes(before, after, decision)
}

// after returns the next operation's item, with this item's parts.
func (it *item) after(next *journal.Operation) *item {
	now := &item{whole: true}
	if it != nil {
		*now = *it
	}
	if now.box != nil && !format.SamePrivate(&it.op, next) {
		now.box = nil
	}
	now.op = *next
	now.op.Request, now.op.Answer = journal.Request{}, nil
	if next.Tombstone && next.SealedBy != "" {
		now.box, now.op.SealedBy = nil, "" // nothing is left of the request, not even sealed
	}
	return now
}

// answerOf returns the encoded answer. An answer that Next kept unchanged is the caller's encoded answer.
func (p *prepared) answerOf(c format.Codec, next *journal.Operation) *Part {
	if p.answer != nil && reflect.DeepEqual(next.Answer, &p.answered) {
		return p.answer
	}
	return encodeAnswer(c, next.Ref, next.Answer)
}

// result decodes the outcome for its caller.
func (o *outcome) result(c format.Codec) (machine.Result, error) {
	result := machine.Result{Decision: o.decision, Last: o.last, Unconfirmed: o.unconfirmed}
	if o.it == nil {
		return result, nil
	}
	result.Operation = format.Unshared(o.it.op)
	var request, answer string // keys that are missing
	var err error
	switch {
	case o.request != nil:
		result.Operation.Request = *o.request
	case o.it.whole && o.decision != machine.Recorded:
		head, body := o.it.request.bytes()
		if result.Operation.Request, request, err = c.DecodeRequest(o.it.op.Ref, head, body); err != nil {
			return machine.Result{}, err
		}
	}
	switch {
	case o.answer != nil:
		result.Operation.Answer = o.answer
	case o.it.whole && o.it.answer != nil:
		head, body := o.it.answer.bytes()
		result.Operation.Answer, answer, err = c.DecodeAnswer(o.it.op.Ref, head, body)
	}
	result.Operation.SealedBy = cmp.Or(result.Operation.SealedBy, request, answer)
	return result, err
}

// taken reports whether the object that ev names for op proves another operation.
func (b *batch) taken(op *journal.Operation, ev *machine.Event) (bool, error) {
	if !store.NamesObject(*ev) {
		return false, nil
	}
	return b.anyMarked(store.TakenBy(*ev), ev.Object, func(other *journal.Operation) bool { return store.Takes(other, op, *ev) })
}

// sole reports whether no other operation has, or had, the caller's reference that ev shows.
func (b *batch) sole(op *journal.Operation, ev *machine.Event) (bool, error) {
	reaped, is := store.NamesReference(op, *ev)
	if !is {
		return false, nil
	}
	for _, m := range reaped {
		handles, err := b.marked(b.s.key.OfMark(byte(m.By), m.Value))
		if err != nil || len(handles) > 0 {
			return false, err
		}
	}
	shared, err := b.anyMarked(machine.ByReference, ev.Reference, func(other *journal.Operation) bool { return store.Shares(other, op, *ev) })
	return !shared && err == nil, err
}

// anyMarked reports whether is holds for any operation that may have the mark.
func (b *batch) anyMarked(by machine.By, value string, is func(*journal.Operation) bool) (bool, error) {
	handles, err := b.marked(b.s.key.OfMark(byte(by), store.MarkValue(by, value)))
	if err != nil {
		return false, err
	}
	for _, handle := range handles {
		e, err := b.byHandle(handle)
		if err != nil {
			return false, err
		}
		if e != nil && is(&e.now.op) {
			return true, nil
		}
	}
	return false, nil
}

// marked returns the handles that have a mark, in the database or in the batch.
func (b *batch) marked(mark int64) ([]int64, error) {
	if _, asked := b.marks[mark]; !asked {
		if err := b.find(Keys{Marks: []int64{mark}}); err != nil {
			return nil, err
		}
	}
	handles := slices.Concat(b.marks[mark], b.added[mark])
	slices.Sort(handles)
	return slices.Compact(handles), nil
}

// outcome returns an outcome with the times for a caller's clock, which was seen.
func (c *clock) outcome(at time.Time) *outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &outcome{last: c.is.Last, unconfirmed: c.is.Unconfirmed(at), ahead: c.is.Ahead}
}
