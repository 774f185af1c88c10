package format

import (
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
)

// Wake is the time in an operation's column wake_at: the time to wake a pending operation, or to look for an unknown
// one. It is 1970 for an operation that needs attention. A pending operation with Attention has its wake time mirrored
// at 1970. The index of wake times then has it before all others. For an operation in flight it is the time of the last
// change.
func Wake(op *journal.Operation) time.Time {
	if op.Attention != "" && op.State != journal.StatePending {
		return time.UnixMilli(0)
	}
	return woken(op)
}

// recordedWake is Wake as the log has it, where an operation in flight has no such time.
func recordedWake(op *journal.Operation) time.Time {
	if op.State == journal.StateInFlight {
		return op.WakeAt
	}
	return Wake(op)
}

// woken is Wake of an operation that is pending or needs no attention. Before its facts are decoded it is the column.
func woken(op *journal.Operation) time.Time {
	switch {
	case op.State == journal.StateUnknown:
		return op.LookAt
	case op.State == journal.StatePending && op.Attention != "":
		return mirrored(op.WakeAt)
	case op.State == journal.StateInFlight && op.WakeAt.IsZero():
		return op.UpdatedAt
	}
	return op.WakeAt
}

// settleWake makes WakeAt of the column, once the facts are decoded.
func settleWake(op *journal.Operation) {
	switch {
	case op.State == journal.StatePending && op.Attention != "":
		op.WakeAt = mirrored(op.WakeAt)
	case op.State == journal.StateInFlight && op.WakeAt.Equal(op.UpdatedAt):
		op.WakeAt = time.Time{}
	}
}

// mirrored is a time as long before 1970 as t is after it.
func mirrored(t time.Time) time.Time { return time.UnixMilli(-t.UnixMilli()).UTC() }

// Unshared is op with lists of its own. The pointers stay shared, since the values behind the pointers are never
// changed.
func Unshared(op journal.Operation) journal.Operation {
	op.Compare, op.Rounds, op.Evidence = slices.Clone(op.Compare), slices.Clone(op.Rounds), slices.Clone(op.Evidence)
	return op
}

// SetWake sets the times of an operation whose state is known, from its column wake_at. They are right once the
// facts are decoded too.
func SetWake(op *journal.Operation, at time.Time) {
	op.WakeAt, op.LookAt = time.Time{}, time.Time{}
	switch {
	case op.State == journal.StatePending:
		op.WakeAt = at
	case at.Equal(time.UnixMilli(0)): // it is dead
	case op.State == journal.StateUnknown:
		op.LookAt = at
	default:
		op.WakeAt = at
	}
}

// hasSeen reports whether the operation has any mark or evidence. Most have none, and cost one bit.
func hasSeen(op *journal.Operation) bool {
	return op.Account != "" || op.Reference != "" || op.ReferenceName != "" || op.ReferenceOurs || op.Compare != nil || op.Rounds != nil ||
		op.Object != "" || op.Looks != 0 || !op.LookedAt.IsZero() || op.Attention != "" || op.Evidence != nil || op.Withdrawn != nil || op.Adopted
}

func (e *encoder) seen(op *journal.Operation) {
	e.bools(op.ReferenceOurs, op.Adopted, op.Withdrawn != nil)
	for _, s := range [...]string{op.Account, op.Reference, op.ReferenceName, op.Object, op.Attention} {
		e.string(s)
	}
	e.int(int64(op.Looks))
	e.time(op.LookedAt)
	if op.Withdrawn != nil {
		e.resolved(op.Withdrawn)
	}
	e.fields(op.Compare)
	e.length(len(op.Rounds), op.Rounds == nil)
	for _, r := range op.Rounds {
		e.int(int64(r.Generation))
		e.string(r.Key)
		e.string(r.Reference)
	}
	e.length(len(op.Evidence), op.Evidence == nil)
	for i := range op.Evidence {
		e.evidence(&op.Evidence[i])
	}
}

// seen reads what encoder.seen wrote, if there is any, in the place of whatever op has.
func (d *decoder) seen(op *journal.Operation, there bool) {
	op.ReferenceOurs, op.Adopted, op.Withdrawn = false, false, nil
	op.Account, op.Reference, op.ReferenceName, op.Object, op.Attention = "", "", "", "", ""
	op.Looks, op.LookedAt = 0, time.Time{}
	op.Compare, op.Rounds, op.Evidence = nil, nil, nil
	if !there {
		return
	}
	var withdrawn bool
	d.bools(&op.ReferenceOurs, &op.Adopted, &withdrawn)
	for _, s := range [...]*string{&op.Account, &op.Reference, &op.ReferenceName, &op.Object, &op.Attention} {
		*s = d.string()
	}
	op.Looks = d.count()
	op.LookedAt = d.time()
	if withdrawn {
		op.Withdrawn = d.resolved()
	}
	op.Compare = d.fields()
	if n := d.length(); n >= 0 {
		op.Rounds = make([]journal.Round, 0, n)
		for range n {
			op.Rounds = append(op.Rounds, journal.Round{Generation: d.count(), Key: d.string(), Reference: d.string()})
		}
	}
	if n := d.length(); n >= 0 {
		op.Evidence = make([]journal.Evidence, 0, min(n, 16))
		for range n {
			op.Evidence = append(op.Evidence, d.evidence())
		}
	}
}

func (e *encoder) fields(list []journal.Field) {
	e.length(len(list), list == nil)
	for _, f := range list {
		e.string(f.Name)
		e.string(f.Value)
	}
}

func (d *decoder) fields() []journal.Field {
	n := d.length()
	if n < 0 {
		return nil
	}
	list := make([]journal.Field, 0, n)
	for range n {
		list = append(list, journal.Field{Name: d.string(), Value: d.string()})
	}
	return list
}

func (e *encoder) resolved(r *journal.Resolved) {
	e.byte(byte(r.Resolution))
	e.string(r.By)
	e.string(r.Why)
	e.time(r.At)
	e.int(int64(r.Generation))
	e.int(r.Claim)
}

func (d *decoder) resolved() *journal.Resolved {
	return &journal.Resolved{Resolution: journal.Resolution(d.byte()), By: d.string(), Why: d.string(),
		At: d.time(), Generation: d.count(), Claim: d.int()}
}

func (e *encoder) evidence(v *journal.Evidence) {
	e.time(v.At)
	e.int(int64(v.Generation))
	for _, s := range [...]string{v.Source, v.Actor, v.Target, v.Object, v.Digest, v.Rule, v.Why} {
		e.string(s)
	}
	e.int(int64(v.Status))
	e.int(int64(v.Pages))
	e.byte(byte(v.Finding))
	e.byte(byte(v.Basis))
	e.bools(v.Answer != nil)
	if v.Answer != nil {
		e.nested(v.Answer)
	}
}

func (d *decoder) evidence() (v journal.Evidence) {
	v.At = d.time()
	v.Generation = d.count()
	for _, s := range [...]*string{&v.Source, &v.Actor, &v.Target, &v.Object, &v.Digest, &v.Rule, &v.Why} {
		*s = d.string()
	}
	v.Status = d.count()
	v.Pages = d.count()
	v.Finding = journal.Finding(d.byte())
	v.Basis = journal.Basis(d.byte())
	var answer bool
	d.bools(&answer)
	if answer {
		v.Answer = d.nested()
	}
	return v
}
