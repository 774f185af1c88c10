package format

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
)

// At the end of an operation's facts stands what most don't have, field by field: a tag, the length, and the bytes. One
// that has none of it is encoded as before there were any. A field with an unknown tag was written by a newer release.
// The field is written again unchanged (journal.Operation.Newer), so nothing is lost if two releases share a journal.

// The tags of the fields known to this release. A tag is never used for another field. There is no table of functions
// by tag, since an operation that is passed to such a function is copied to the heap.
const (
	tagNotAfter = 1
	tagTrace    = 2
	tagEnqueued = 5
	tagInbound  = 7
	tagFlow     = 8
	tagParked   = 9
	tagDisputed = 10
	tagLeftFor  = 11
	tagRow      = 12
	tagAnswer   = 13
)

var tags = [...]uint64{tagNotAfter, tagTrace, tagEnqueued, tagInbound, tagFlow, tagParked, tagDisputed, tagLeftFor, tagRow, tagAnswer}

func hasExtra(tag uint64, op *journal.Operation) bool {
	switch tag {
	case tagNotAfter:
		return !op.NotAfter.IsZero()
	case tagTrace:
		return op.Trace != ""
	case tagEnqueued:
		return op.Enqueued
	case tagInbound:
		return op.InboundEndpoint != ""
	case tagFlow:
		return op.Flow != (journal.FlowRef{})
	case tagParked:
		return !op.ParkedSince.IsZero()
	case tagDisputed:
		return op.Disputed
	case tagLeftFor:
		return op.LeftFor != 0
	case tagRow:
		return op.Row != ""
	case tagAnswer:
		return op.LastAnswer != nil
	}
	return false
}

// extra writes a field. A true one needs no bytes beyond the tag.
func (e *encoder) extra(tag uint64, op *journal.Operation) {
	switch tag {
	case tagNotAfter:
		e.time(op.NotAfter)
	case tagTrace:
		e.buf = append(e.buf, op.Trace...)
	case tagInbound:
		e.buf = append(e.buf, op.InboundEndpoint...)
	case tagFlow:
		e.string(op.Flow.ID)
		e.string(op.Flow.Parent)
		e.int(op.Flow.Handle)
	case tagParked:
		e.time(op.ParkedSince)
	case tagLeftFor:
		e.int(int64(op.LeftFor))
	case tagRow:
		e.buf = append(e.buf, op.Row...)
	case tagAnswer:
		e.nested(op.LastAnswer)
	}
}

// extra reads a field, and reports whether this release knows the field.
func (d *decoder) extra(tag uint64, op *journal.Operation) (known bool) {
	switch tag {
	case tagNotAfter:
		op.NotAfter = d.time()
	case tagTrace:
		op.Trace, d.buf = string(d.buf), nil
	case tagEnqueued:
		op.Enqueued = true
	case tagInbound:
		op.InboundEndpoint, d.buf = string(d.buf), nil
	case tagFlow:
		op.Flow = journal.FlowRef{ID: d.string(), Parent: d.string(), Handle: d.int()}
	case tagParked:
		op.ParkedSince = d.time()
	case tagDisputed:
		op.Disputed = true
	case tagLeftFor:
		op.LeftFor = time.Duration(d.int())
	case tagRow:
		op.Row, d.buf = string(d.buf), nil
	case tagAnswer:
		op.LastAnswer = d.nested()
	default:
		return false
	}
	return true
}

func clearExtras(op *journal.Operation) {
	op.NotAfter, op.Trace, op.Enqueued = time.Time{}, "", false
	op.InboundEndpoint, op.Flow, op.Newer = "", journal.FlowRef{}, nil
	op.ParkedSince, op.Disputed, op.LeftFor, op.Row = time.Time{}, false, 0, ""
	op.LastAnswer = nil
}

func hasExtras(op *journal.Operation) bool {
	return op.Newer != nil || slices.ContainsFunc(tags[:], func(tag uint64) bool { return hasExtra(tag, op) })
}

func (e *encoder) extras(op *journal.Operation) {
	var space [2][128]byte // most extras fit
	all, one := encoder{space[0][:0]}, encoder{space[1][:0]}
	for _, tag := range tags {
		if hasExtra(tag, op) {
			one.buf = one.buf[:0]
			one.extra(tag, op)
			all.buf = binary.AppendUvarint(all.buf, tag)
			all.bytes(one.buf)
		}
	}
	all.buf = append(all.buf, op.Newer...)
	e.bytes(all.buf)
}

// extras reads what encoder.extras wrote, if there is any, in the place of whatever op has.
func (d *decoder) extras(op *journal.Operation, there bool) {
	clearExtras(op)
	if !there {
		return
	}
	all := decoder{buf: d.bytes()}
	if len(all.buf) == 0 {
		d.fail() // the section is left out where there is nothing
	}
	for len(all.buf) > 0 {
		field := all.buf
		tag := all.uint()
		value := decoder{buf: all.bytes()}
		if all.failed {
			break
		}
		twice := hasExtra(tag, op)
		switch known := value.extra(tag, op); {
		case !known:
			op.Newer = append(op.Newer, field[:len(field)-len(all.buf)]...)
		case twice || value.end() != nil || !hasExtra(tag, op):
			all.fail()
		}
	}
	if all.failed {
		d.fail()
	}
}
