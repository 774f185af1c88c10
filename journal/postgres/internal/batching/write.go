package batching

import (
	"bytes"
	"cmp"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// maxBatch limits the writes of a transaction, and MaxBytes their size, except for a single larger one. All of them must
// arrive within the transaction's time, and are in memory several times, also on the server. A write without a waiting
// caller waits riderWait for others.
const (
	maxBatch  = 1024
	MaxBytes  = 16 << 20
	riderWait = 20 * time.Millisecond
)

// Write is a row on its way into the database.
type Write struct {
	Event    journal.Event
	Before   *record.Row    // nil means that it is inserted
	Seen     *leased.Member // this process when it wrote or read before
	Op       journal.Operation
	Decision journal.Decision
	Stored   record.Stored
	Needs    string // the session that has to be alive; "" for none
	Rider    bool   // no caller waits for it

	Answered bool
	Like     Likeness
	Marks    *MarkChange // nil if it changes none
	Object   int64       // a lock that writes with the same object share; 0 for none

	As     *leased.Member // the writing process
	Handle int64          // that the server gave back; 0 if the row was another
	Err    error
	Done   chan struct{}
}

// End tells the caller that the result of the write is known: nil if it is in the database.
func (w *Write) End(err error) {
	w.Err = err
	close(w.Done)
}

// EndAll ends several writes.
func EndAll(batch []*Write, err error) {
	for _, w := range batch {
		w.End(err)
	}
}

// InLockOrder compares writes for the order of their locks, which is the same in all processes: new names by identity,
// then rows by handle.
func InLockOrder(a, b *Write) int {
	switch {
	case a.Before == nil && b.Before == nil:
		return bytes.Compare(a.Stored.Identity, b.Stored.Identity)
	case a.Before == nil:
		return -1
	case b.Before == nil:
		return 1
	}
	return cmp.Compare(a.Before.Op.Handle, b.Before.Op.Handle)
}

// MarkChange is the change of an operation's marks by a write.
type MarkChange struct {
	Add, Remove []int64
	Taken       any // that must not be another operation's; nil for none
}

// statement returns the statement that makes the write by itself, with its arguments.
func (w *Write) statement(s *SQL) (sql string, args []any) {
	switch {
	case w.Before == nil && w.Marks != nil:
		return s.insertMarked, append(record.InsertArgs(&w.Op, &w.Stored), w.Marks.Add)
	case w.Before == nil:
		return s.Insert, record.InsertArgs(&w.Op, &w.Stored)
	}
	args = record.UpdateArgs(w.Before, &w.Op, &w.Stored)
	switch {
	case w.Marks != nil:
		return s.updateMarked, append(args, w.Stored.Answer, w.Stored.AnswerBody, w.Marks.Add, w.Marks.Remove, w.Marks.Taken)
	case w.Answered:
		return s.answer, append(args, w.Stored.Answer, w.Stored.AnswerBody)
	}
	return s.Update, args
}

// After returns the row that the write left.
func (w *Write) After() *record.Row {
	r := &record.Row{Op: w.Op, Sum: w.Stored.Sum, Request: w.Stored.Request}
	r.Op.Handle = w.Handle
	if w.Before != nil {
		r.Revision, r.Request = w.Before.Revision+1, w.Before.Request
	}
	return r
}

// Sizes returns about as many bytes as the arguments of all parts are sent as, and as those of the largest part.
func Sizes(statements []Part) (all, most int) {
	for _, p := range statements {
		size := 0
		for _, w := range p.writes {
			size += w.size()
		}
		all, most = all+size, max(most, size)
	}
	return all, most
}

// size is about as many bytes as the arguments of the write are sent as.
func (w *Write) size() int {
	const others = 16*8 + 64 // their lengths, the numbers, and the digests
	s := &w.Stored
	return others + len(w.Op.Scope) + len(w.Op.Parent) + len(w.Op.ID) + len(w.Op.Provider) + len(w.Op.Holder) +
		len(s.Facts) + len(s.Request) + len(s.RequestBody) + len(s.Answer) + len(s.AnswerBody)
}
