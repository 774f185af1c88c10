package compare

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// fits reports whether the object may have the operation's kind.
func (one *operation) fits(o *Object) bool {
	return o.Kind == "" || one.kind == "" || o.Kind == one.kind
}

// byObject returns the operation whose object it is, or nil. If several operations have the object, it belongs to the
// operation with its mark, else to the first. The others share it, unless they are copies. An object is vague if
// operations of several kinds have its id, and the list says neither its kind nor a mark.
func (r *run) byObject(o *Object) (one *operation, vague bool) {
	var all []*operation
	for _, one := range r.objects[o.ID] {
		if one.fits(o) && one.standing == executed {
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, false
	}
	rank := func(one *operation) int {
		switch {
		case o.Key != "" && o.Key == one.key || o.Reference != "" && o.Reference == one.reference:
			return 0
		case one.expects:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b *operation) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.firstSent.Compare(b.firstSent))
	})
	one = all[0]
	for _, other := range all[1:] {
		switch {
		case !other.expects:
		case one.kind != "" && other.kind != "" && one.kind != other.kind: // the list does not say which kind it is
			if rank(one) > 0 {
				one.vague, other.vague, vague = true, true, true
			}
		case !other.copies(one):
			other.shares = true
		}
	}
	return one, vague
}

// copies reports whether both are one operation, in two journals.
func (one *operation) copies(other *operation) bool {
	return one.journal != other.journal && one.ref.Scope == other.ref.Scope && one.key == other.key && (one.key != "" || one.ref == other.ref)
}

// copiesOf returns the same operation in other journals, if it took effect or has no outcome there, and has no other object.
func (r *run) copiesOf(one *operation, o *Object) (all []*operation) {
	among := r.keys[one.key]
	if one.key == "" {
		among = slices.Concat(r.objects[o.ID], r.references[one.reference])
	}
	for _, other := range among {
		if other.copies(one) && other.standing != none && slices.Contains([]string{"", o.ID}, cmp.Or(other.id, other.seen)) && !slices.Contains(all, other) {
			all = append(all, other)
		}
	}
	return all
}

// byMark returns the operation with the object's key, or else the object's reference, or nil.
func (r *run) byMark(o *Object) *operation {
	for _, all := range [][]*operation{r.keys[o.Key], r.references[o.Reference]} {
		if len(all) > 0 {
			return likeliest(o, all)
		}
	}
	for _, one := range r.objects[o.ID] { // which did not take effect
		if one.fits(o) {
			return one
		}
	}
	return nil
}

// likeliest returns the operation that made the object, among the operations with its mark.
func likeliest(o *Object, all []*operation) *operation {
	return slices.MinFunc(all, func(a, b *operation) int { return cmp.Compare(rank(o, a), rank(o, b)) })
}

// surely is the last rank that needs no search for an operation outside the window.
const surely = 2

// rank says how likely an operation with the object's mark made it: the least is the likeliest. A caller may use a reference again: an
// operation without an object yet comes first, and of these the one with the effect that the object has.
func rank(o *Object, one *operation) int {
	switch id := cmp.Or(one.id, one.seen); {
	case !one.fits(o):
		return 5
	case id == o.ID:
		return 0
	case id != "":
		return 4
	case o.State == providers.Refused:
		return 1 + int(one.standing)
	}
	return 3 - int(one.standing)
}

// search looks in the journals for an object's operation, sent at any time. others reports whether another scope,
// account or mode has an operation with the object or a mark of the object. A mark that another scope has too is no proof.
func (r *run) search(ctx context.Context, o *Object) (one *operation, others bool, err error) {
	for _, by := range []struct {
		by    machine.By
		value string
		held  []*operation
	}{
		{machine.ByObject, nameOf(o.Kind, o.ID), nil}, {machine.ByKey, o.Key, r.keys[o.Key]}, {machine.ByReference, o.Reference, r.references[o.Reference]},
	} {
		if by.value == "" || by.by == machine.ByObject && o.Key == "" && o.Reference == "" {
			continue
		}
		all := slices.Clone(by.held)
		for i, j := range r.opts.Journals {
			matches, err := j.(machine.Reconciler).FindBy(ctx, r.provider, by.by, by.value)
			if err != nil {
				return nil, false, fmt.Errorf("compare: journal %d: %w", i, err)
			}
			for k := range matches {
				op := &matches[k].Operation
				switch {
				case r.opts.Scope != nil && op.Scope != *r.opts.Scope:
					for _, one := range by.held {
						one.vague = one.vague || one.id == ""
					}
					return nil, true, nil
				case r.otherThanListed(op) != "":
					others = true
					continue
				}
				found, err := r.found(ctx, i, op)
				if err != nil {
					return nil, false, fmt.Errorf("compare: journal %d: %w", i, err)
				}
				if by.by != machine.ByObject || found.fits(o) {
					all = append(all, found)
				}
			}
		}
		if len(all) > 0 {
			return likeliest(o, all), others, nil
		}
	}
	return nil, others, nil
}

// found returns a search's operation as it is compared. An operation that Run did not read before counts as one
// outside the window. Without a recorded object the operation is kept, to tell a second object.
func (r *run) found(ctx context.Context, in int, op *journal.Operation) (*operation, error) {
	for _, one := range slices.Concat(r.keys[op.Key], r.references[op.Reference]) {
		if one.journal == in && one.ref == op.Ref {
			return one, nil
		}
	}
	one, _, err := r.operationOf(ctx, in, op)
	if err != nil {
		return nil, err
	}
	if one.inWindow = false; one.id == "" {
		r.index(one, op)
	}
	return one, nil
}
