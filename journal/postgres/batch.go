package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// A caller's goroutine decides an event that needs only this process's memory. A lane writes all such events that
// wait for it in one round trip, one transaction. A row is written only at the revision that was decided on. If
// another revision is there, the event takes the slow path.

// group has the lanes that commit batches, and the writes that wait for one.
type group struct {
	j     *Journal
	lanes []*lane
	*queue
}

func (j *Journal) newGroup(lanes int) *group {
	g := &group{j: j, queue: newQueue(lanes, j.background.Done())}
	for i := range lanes {
		g.lanes = append(g.lanes, j.newLane(i))
	}
	return g
}

// run commits batches on one of the lanes until the Journal is closed.
func (g *group) run(i int) {
	l := g.lanes[i]
	defer l.hangUp()
	for {
		batch := g.next(i)
		if len(batch) == 0 {
			return
		}
		all := slices.Clone(batch) // commit takes out what it has ended
		g.commit(l, batch)
		g.landed(i, all)
	}
}

// errLeave makes a write take the slow path. errApart makes each write of a batch a statement of its own. errLate
// makes a batch smaller.
var (
	errLeave = errors.New("postgres: it is decided by what the database has")
	errApart = errors.New("postgres: one of several writes failed")
	errLate  = errors.New("postgres: a batch was not committed in time")
)

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
		p.queue(b, &l.j.sql.rows)
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

// needsMarks reports whether the event depends on the marks of other operations, so that it needs a query.
func needsMarks(before *journal.Operation, ev journal.Event) bool {
	return ev.Object != "" && ev.Kind != journal.EventComplete || before.Object != "" || len(before.Evidence) > 0
}
