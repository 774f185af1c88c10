package postgres

import (
	"bytes"
	"cmp"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/member"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// maxBatch limits the writes of a transaction, and maxBatchBytes their size, except for a single larger one. All of
// them must arrive within commitTime, and are in memory several times, also on the server. riderWait is how long a
// write without a waiting caller waits for others.
const (
	maxBatch      = 1024
	maxBatchBytes = 16 << 20
	riderWait     = 20 * time.Millisecond
)

// write is a row on its way into the database.
type write struct {
	ev       journal.Event
	before   *record.Row    // nil means that it is inserted
	seen     *member.Member // this process when it wrote or read before
	op       journal.Operation
	decision journal.Decision
	stored   record.Stored
	needs    string // the session that has to be alive; "" for none
	rider    bool   // no caller waits for it

	answered bool
	like     likeness
	marks    *remarking // nil if it changes none
	object   int64      // a lock that writes with the same object share; 0 for none

	as     *member.Member // the writing process
	handle int64          // that the server gave back; 0 if the row was another
	err    error
	done   chan struct{}
}

// end tells the caller that the result of the write is known: nil if it is in the database.
func (w *write) end(err error) {
	w.err = err
	close(w.done)
}

// endAll ends several writes.
func endAll(batch []*write, err error) {
	for _, w := range batch {
		w.end(err)
	}
}

// inOrder compares writes for the order of their locks, which is the same in all processes: new names by identity,
// then rows by handle.
func inOrder(a, b *write) int {
	switch {
	case a.before == nil && b.before == nil:
		return bytes.Compare(a.stored.Identity, b.stored.Identity)
	case a.before == nil:
		return -1
	case b.before == nil:
		return 1
	}
	return cmp.Compare(a.before.Op.Handle, b.before.Op.Handle)
}

// remarking is the change of an operation's marks by a write.
type remarking struct {
	add, remove []int64
	taken       any // that must not be another operation's; nil for none
}

// statement returns the statement that makes the write by itself, with its arguments.
func (w *write) statement(s *writeSQL) (sql string, args []any) {
	switch {
	case w.before == nil && w.marks != nil:
		return s.insertMarked, append(record.InsertArgs(&w.op, &w.stored), w.marks.add)
	case w.before == nil:
		return s.insert, record.InsertArgs(&w.op, &w.stored)
	}
	args = record.UpdateArgs(w.before, &w.op, &w.stored)
	switch {
	case w.marks != nil:
		return s.updateMarked, append(args, w.stored.Answer, w.stored.AnswerBody, w.marks.add, w.marks.remove, w.marks.taken)
	case w.answered:
		return s.answer, append(args, w.stored.Answer, w.stored.AnswerBody)
	}
	return s.update, args
}

// after returns the row that the write left.
func (w *write) after() *record.Row {
	r := &record.Row{Op: w.op, Sum: w.stored.Sum, Request: w.stored.Request}
	r.Op.Handle = w.handle
	if w.before != nil {
		r.Revision, r.Request = w.before.Revision+1, w.before.Request
	}
	return r
}

// room returns about as many bytes as the arguments of all parts are sent as, and as those of the largest part.
func room(statements []part) (all, most int) {
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
func (w *write) size() int {
	const others = 16*8 + 64 // their lengths, the numbers, and the digests
	s := &w.stored
	return others + len(w.op.Scope) + len(w.op.Parent) + len(w.op.ID) + len(w.op.Provider) + len(w.op.Holder) +
		len(s.Facts) + len(s.Request) + len(s.RequestBody) + len(s.Answer) + len(s.AnswerBody)
}
