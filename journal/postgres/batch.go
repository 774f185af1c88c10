package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/member"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// A caller's goroutine decides an event that needs only this process's memory. A lane writes all such events that
// wait for it in one round trip, one transaction. A row is written only at the revision that was decided on. If
// another revision is there, the event takes the slow path.

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

// errLeave makes a write take the slow path. errApart makes each write of a batch a statement of its own. errLate
// makes a batch smaller.
var (
	errLeave = errors.New("postgres: it is decided by what the database has")
	errApart = errors.New("postgres: one of several writes failed")
	errLate  = errors.New("postgres: a batch was not committed in time")
)

func (w *write) end(err error) {
	w.err = err
	close(w.done)
}

// mostAgain is how often a batch is retried unchanged if one of its statements fails with a retryable error. Then that
// one is taken out: a trigger may fail so forever.
const mostAgain = 3

// mostTakenOut limits the writes that are taken out of a batch one by one. Each of them costs the others another try.
const mostTakenOut = 4

// commit commits the batch, or half of it at a time if it was too large for its time. If a single write is too late,
// the others take the slow path with it. Size may not be the reason, and they have waited long.
func (g *group) commit(l *lane, batch []*write) {
	slices.SortStableFunc(batch, inOrder)
	for most := len(batch); len(batch) > 0; {
		n := min(most, len(batch))
		late := g.commitOnce(l, batch[:n:n])
		switch batch = batch[n:]; {
		case len(late) == 1:
			endAll(append(late, batch...), errLeave)
			return
		case len(late) > 1:
			most, batch = len(late)/2, append(late, batch...)
		}
	}
}

// commitOnce commits a batch, and returns the writes to retry if it took too long. It takes out writes that can't be
// in it, and retries the others. Once it has taken out mostTakenOut, the slow path decides the writes after the last
// of these one by one. So locked names or violated constraints stop no other write.
func (g *group) commitOnce(l *lane, batch []*write) (late []*write) {
	apart, takenOut := false, 0
	for try := 0; len(batch) > 0; try++ {
		batch = slices.DeleteFunc(batch, func(w *write) bool {
			if w.needs == "" {
				return false
			}
			_, err := g.j.mine(w.needs)
			if err == nil {
				err = g.j.refusal()
			}
			if err != nil {
				w.end(err)
			}
			return err != nil
		})
		if len(batch) == 0 {
			return nil
		}
		began := time.Now()
		at, err := g.try(l, batch, apart, try < mostAgain)
		err = g.j.orClosed(err)
		switch {
		case errors.Is(err, errApart):
			apart = true
		case err == nil:
			g.j.committed(len(batch), began)
			for _, w := range batch {
				if w.handle == 0 {
					w.end(errLeave)
				} else {
					w.end(nil)
				}
			}
			return nil
		case errors.Is(err, errLate):
			return batch
		case errors.Is(err, errInDoubt), errors.Is(err, journal.ErrClosed):
			endAll(batch, err)
			return nil
		case at >= 0:
			w := batch[at]
			batch = slices.Delete(batch, at, at+1)
			switch {
			case errors.Is(err, errLeave):
				w.end(err)
				continue
			case pgerr.FateOf(err) == pgerr.Poisoned:
				w.end(explain("apply", err))
			default:
				g.j.locked.add(w.op.Ref)
				w.end(errLeave)
			}
			if takenOut++; takenOut >= mostTakenOut {
				endAll(batch[at:], errLeave)
				batch = batch[:at]
			}
		case pgerr.FateOf(err) == pgerr.Poisoned: // at the commit, where a deferred constraint does not say whose it is
			endAll(batch, errLeave)
			return nil
		case try < 20 && (errors.Is(err, errLost) || pgerr.FateOf(err) == pgerr.Again || pgerr.FateOf(err) == pgerr.Locked):
		case errors.Is(err, errLost), pgerr.FateOf(err) == pgerr.Again, pgerr.FateOf(err) == pgerr.Locked: // whosever it is
			endAll(batch, errLeave)
			return nil
		case pgerr.FateOf(err) == pgerr.Outage && try < 2:
		default:
			endAll(batch, explain("apply", err))
			return nil
		}
	}
	return nil
}

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

// try sends the batch, and returns the index of the failed write, or -1. With again, it blames no write for an error
// that a retry may avoid.
func (g *group) try(l *lane, batch []*write, apart, again bool) (at int, err error) {
	var needs []string
	for _, w := range batch {
		if w.needs != "" && !slices.Contains(needs, w.needs) {
			needs = append(needs, w.needs)
		}
	}
	ctx := g.j.background
	if err := l.ready(ctx); err != nil {
		return -1, err
	}
	if err := l.rotate(ctx); err != nil {
		return -1, err
	}
	if len(needs) > 0 && g.j.refusal() != nil { // a connection that was just made has shown it
		return -1, errLost
	}
	last := g.j.clock.Get().Last
	for i, w := range batch {
		if w.as = l.member; w.before != nil && w.seen != l.member {
			return i, errLeave
		}
		if w.ev.Last.After(last) { // it was decided by a clock that was reset since
			return i, errLeave
		}
	}
	statements := parts(batch, apart)
	since := l.member.Newest.Load()
	at, tag, err := l.send(statements, needs)
	switch {
	case err != nil && at == atGuard:
		l.rollback()
		if pgerr.FateOf(err) != pgerr.Guard {
			return -1, err
		}
		if err := l.diagnose(ctx, ask{needs: needs}); err != nil && !errors.Is(err, journal.ErrSessionLost) {
			return -1, err
		}
		return -1, errLost
	case err != nil && at >= 0:
		if pgerr.FateOf(err) == pgerr.Outage {
			l.hangUp()
			return -1, err // before the COMMIT: nothing is there
		}
		l.rollback()
		if f := pgerr.FateOf(err); f == pgerr.Failed || f == pgerr.Again && again {
			return -1, err
		}
		return blame(statements[at], err)
	}
	resolved, late := false, pgerr.IsLate(err)
	unclear := at <= atUnclear
	err = l.committed(ctx, tag, err, &resolved)
	if late && errors.Is(err, errLost) {
		return -1, errLate
	}
	if unclear && errors.Is(err, errLost) { // it was not committed, and the server had not come further than this statement
		return blame(statements[atUnclear-at], err)
	}
	if err == nil && resolved {
		err = g.reread(l, batch, since)
	}
	if err == nil {
		for _, w := range batch {
			w.as.Given(w.handle)
		}
	}
	return -1, err
}

// blame returns the index of a part's only write, to be taken out. For a part of several writes it returns errApart:
// the batch goes again in pieces, to find the one that failed.
func blame(p part, err error) (at int, _ error) {
	if p.together() {
		return -1, errApart
	}
	return p.first, err
}

// Places of a failure that are not the index of a part.
const (
	atGuard   = -2
	atCommit  = -3
	atUnclear = -4 // less the index of the part: the server answered that it does not know the result of that part
)

// send sends the parts of a batch in one round trip. An error comes with the part where it happened.
func (l *lane) send(statements []part, needs []string) (at int, tag string, err error) {
	ctx, cancel := context.WithTimeout(l.j.background, l.j.commitTime)
	defer cancel()
	b := new(pgx.Batch)
	b.Queue(connection.BeginSQL)
	settings, lock := connection.Settings, batchLock
	if l.j.locked.any() {
		lock = heldLock
	}
	if slices.ContainsFunc(statements, part.together) {
		settings = connection.TogetherSettings
	}
	b.Queue(settings, lock)
	l.queueGuard(b, needs)
	for _, p := range statements {
		p.queue(b, &l.j.sql)
	}
	b.Queue("COMMIT")
	l.Warned.Store(false)
	all, most := room(statements)
	connection.MakeRoom(l.conn, all, most)
	sent := time.Now()
	results := l.conn.SendBatch(ctx, b)
	defer func() {
		if closing := results.Close(); err == nil && closing != nil {
			at, err = atCommit, closing
		}
	}()
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return l.early(atGuard, err)
		}
	}
	var one int64
	var now time.Time
	if err := results.QueryRow().Scan(&one, &now); err != nil {
		return l.early(atGuard, err)
	}
	l.guarded(time.Since(sent))
	l.j.time.HeardAt(sent, now)
	for i, p := range statements {
		if err := p.read(results); err != nil {
			return l.early(i, err)
		}
	}
	done, err := results.Exec()
	return atCommit, done.String(), err
}

// early returns an error before the answer to COMMIT. If it is the server's, of a statement, nothing is committed.
// Otherwise the result is unknown, since everything was sent at once.
func (l *lane) early(at int, err error) (int, string, error) {
	switch {
	case pgerr.IsStatements(err):
	case at >= 0 && pgerr.IsUnclear(err):
		at = atUnclear - at
	default:
		at = atCommit
	}
	return at, "", err
}

// reread finds out the writes of a committed batch whose answers were lost. Two writes that begin one name at the same
// millisecond would have written the same row. It belongs to the first one in the batch. It belongs to neither if its
// handle is not above since, the latest that this process knew when it sent the batch.
func (g *group) reread(l *lane, batch []*write, since int64) error {
	return l.retry(g.j.background, func(ctx context.Context, conn *pgx.Conn) error {
		taken := make(map[int64]bool)
		for _, w := range batch {
			if err := g.j.rereadOne(ctx, conn, w); err != nil {
				return err
			}
			if taken[w.handle] || w.before == nil && w.handle <= since {
				w.handle = 0
			}
			taken[w.handle] = true
		}
		return nil
	})
}

// rereadOne sets the handle of a write that is in the database. If the row is not as it was to be written, the handle
// is 0, and the slow path decides the event.
func (j *Journal) rereadOne(ctx context.Context, conn *pgx.Conn, w *write) error {
	handle, args := "$1", []any{int64(0)}
	if w.before != nil {
		args[0] = w.before.Op.Handle
	} else {
		ref := w.op.Ref
		handle, args = j.sql.find, []any{record.Digest(ref), []byte(ref.ID), []byte(ref.Scope), []byte(ref.Parent)}
	}
	var facts []byte
	w.handle = 0
	err := conn.QueryRow(ctx, "SELECT handle, facts FROM "+j.schema+".operations WHERE handle = "+handle, args...).Scan(&w.handle, &facts)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil && !bytes.Equal(facts, w.stored.Facts) {
		w.handle = 0
	}
	return err
}

// held has the rows of the operations that this process holds, so that it decides their events without a query. A row
// is valid only for the process identity that saw it. After a database has gone back and was adopted, another row may
// have the same handle and revision.
type held struct {
	mu   sync.Mutex
	rows map[int64]heldRow
}

// heldRow is a row with this process as it wrote or read it.
type heldRow struct {
	*record.Row
	seen *member.Member
}

const maxHeld = 16384

func (h *held) get(handle int64) heldRow {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rows[handle]
}

// keep remembers the operation as it was written, while a session of this process holds it.
func (h *held) keep(r *record.Row, seen *member.Member, mine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !mine || r.Op.Holder == "" {
		delete(h.rows, r.Op.Handle)
		return
	}
	if was := h.rows[r.Op.Handle]; was.Row != nil && was.Revision > r.Revision {
		return
	}
	if h.rows == nil || len(h.rows) >= maxHeld {
		h.rows = make(map[int64]heldRow)
	}
	kept := *r
	kept.Op.Request, kept.Op.Answer = journal.Request{}, nil
	h.rows[r.Op.Handle] = heldRow{&kept, seen}
}

func (h *held) forget(handle int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rows, handle)
}

// noRow stands for an operation that the journal does not have. It is never written to.
var noRow = new(record.Row)

// decided returns the write of an event by this process's memory, or nil.
func (j *Journal) decided(ev journal.Event) *write {
	before := heldRow{Row: noRow}
	switch ev.Kind {
	case journal.EventBegin:
		if ev.Intent == nil || ev.Handle != 0 || ev.Ref == (journal.Ref{}) || len(ev.Intent.Aliases()) > 0 || !ev.New && ev.Intent.Naming != journal.Named {
			return nil
		}
	case journal.EventComplete, journal.EventPark, journal.EventDoubt, journal.EventCancel, journal.EventDeliver:
		if before = j.held.get(ev.Handle); before.Row == nil || ev.Ref != (journal.Ref{}) && !store.IsNamed(&before.Op, ev.Ref) ||
			ev.Kind == journal.EventDeliver != (before.Op.State != journal.StateInFlight) || needsMarks(&before.Op, ev) {
			return nil
		}
	default:
		return nil
	}
	clock, still := j.clock.Glance(ev.At)
	if !still || j.locked.has(ev.Ref) {
		return nil
	}
	ev.Last, ev.Unconfirmed = clock.Last, clock.Unconfirmed(ev.At)
	next, decision, err := journal.Next(before.Op, false, ev)
	if err != nil || !store.Changes(before.Op, next, decision) || next.State == journal.StateAbsent {
		return nil
	}
	add, remove := record.Remarked(&before.Op, &next)
	w := &write{ev: ev, op: next, decision: decision, done: make(chan struct{}), rider: ev.Kind == journal.EventDeliver}
	if clock.Margin(next.Terms) { // the first one of its kind: the others go by it once it is recorded, and not before
		return nil
	}
	if !before.Exists() {
		w.stored, w.needs = record.Encode(&next, nil, true, true), ev.Session
		switch {
		case len(add) > 0:
			w.marks = &remarking{add: add}
		case w.stored.Identity == nil && w.stored.Alias == nil:
			w.like = likeNew
		default:
			w.like = likeNamed
		}
		return w
	}
	w.before, w.seen, w.answered = before.Row, before.seen, next.Answer != before.Op.Answer
	w.stored = record.Encode(&next, before.Row, false, w.answered)
	switch {
	case len(add)+len(remove) > 0 || ev.Object != "":
		w.marks = &remarking{add: add, remove: remove}
		if ev.Object != "" {
			w.object = record.MarkHash(store.Mark{By: journal.ByObject, Value: ev.Object})
			w.marks.taken = record.MarkHash(store.Mark{By: store.TakenBy(ev), Value: ev.Object})
		}
	case !w.answered || before.Sum == 0:
		w.like = likeFollowed
	}
	return w
}

// remarking is the change of an operation's marks by a write.
type remarking struct {
	add, remove []int64
	taken       any // that must not be another operation's; nil for none
}

// statement returns the statement that makes the write by itself, with its arguments.
func (w *write) statement(s *statements) (sql string, args []any) {
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

// lockedNames has names whose rows another transaction held for too long, such as one of the application's that
// enqueues. They don't block a lane again at once.
type lockedNames struct {
	mu     sync.Mutex
	until  map[journal.Ref]time.Time
	latest time.Time // of them
}

const lockedFor = 10 * time.Second

func (l *lockedNames) add(ref journal.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.until == nil {
		l.until = make(map[journal.Ref]time.Time)
	}
	maps.DeleteFunc(l.until, func(_ journal.Ref, until time.Time) bool { return now.After(until) })
	l.latest = now.Add(lockedFor)
	l.until[ref] = l.latest
}

func (l *lockedNames) has(ref journal.Ref) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until[ref])
}

// any reports whether there are some, as far as is known.
func (l *lockedNames) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.latest)
}

// needsMarks reports whether the event depends on the marks of other operations, so that it needs a query.
func needsMarks(before *journal.Operation, ev journal.Event) bool {
	return ev.Object != "" && ev.Kind != journal.EventComplete || before.Object != "" || len(before.Evidence) > 0
}
