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
	"github.com/onceward/onceward/journal/postgres/internal/batching"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/known"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// A caller's goroutine decides an event that needs only this process's memory. A lane writes all such events that
// wait for it in one round trip, one transaction. A row is written only at the revision that was decided on. If
// another revision is there, the event takes the slow path.

// group has the lanes that commit batches, and the writes that wait for one.
type group struct {
	j     *laneJournal
	lanes []*lane
	*batching.Queue
}

func (j *laneJournal) newGroup(lanes int) *group {
	g := &group{j: j, Queue: batching.NewQueue(lanes, j.background.Done())}
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
		batch := g.Next(i)
		if len(batch) == 0 {
			return
		}
		all := slices.Clone(batch) // commit takes out what it has ended
		g.commit(l, batch)
		g.Landed(i, all)
	}
}

// errLeave makes a write take the slow path. errApart makes each write of a batch a statement of its own. errLate
// makes a batch smaller.
var (
	errLeave = errors.New("postgres: the database's rows decide")
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
func (g *group) commit(l *lane, batch []*batching.Write) {
	slices.SortStableFunc(batch, batching.InLockOrder)
	for most := len(batch); len(batch) > 0; {
		n := min(most, len(batch))
		late := g.commitOnce(l, batch[:n:n])
		switch batch = batch[n:]; {
		case len(late) == 1:
			batching.EndAll(append(late, batch...), errLeave)
			return
		case len(late) > 1:
			most, batch = len(late)/2, append(late, batch...)
		}
	}
}

// commitOnce commits a batch, and returns the writes to retry if it took too long. It takes out writes that can't be
// in it, and retries the others. Once it has taken out mostTakenOut, the slow path decides the writes after the last
// of these one by one. So locked names or violated constraints stop no other write.
func (g *group) commitOnce(l *lane, batch []*batching.Write) (late []*batching.Write) {
	apart, takenOut := false, 0
	for try := 0; len(batch) > 0; try++ {
		batch = slices.DeleteFunc(batch, func(w *batching.Write) bool {
			if w.Needs == "" {
				return false
			}
			_, err := g.j.fleet.Sessions.Mine(w.Needs)
			if err == nil {
				err = g.j.fleet.Refusal()
			}
			if err != nil {
				w.End(err)
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
				if w.Handle == 0 {
					w.End(errLeave)
				} else {
					w.End(nil)
				}
			}
			return nil
		case errors.Is(err, errLate):
			return batch
		case errors.Is(err, errInDoubt), errors.Is(err, journal.ErrClosed):
			batching.EndAll(batch, err)
			return nil
		case at >= 0:
			w := batch[at]
			batch = slices.Delete(batch, at, at+1)
			switch {
			case errors.Is(err, errLeave):
				w.End(err)
				continue
			case pgerr.FateOf(err) == pgerr.Poisoned:
				w.End(explain("apply", err))
			default:
				g.j.locked.Add(w.Op.Ref)
				w.End(errLeave)
			}
			if takenOut++; takenOut >= mostTakenOut {
				batching.EndAll(batch[at:], errLeave)
				batch = batch[:at]
			}
		case pgerr.FateOf(err) == pgerr.Poisoned: // at the commit, where a deferred constraint does not say whose it is
			batching.EndAll(batch, errLeave)
			return nil
		case try < 20 && (errors.Is(err, errLost) || pgerr.FateOf(err) == pgerr.Again || pgerr.FateOf(err) == pgerr.Locked):
		case errors.Is(err, errLost), pgerr.FateOf(err) == pgerr.Again, pgerr.FateOf(err) == pgerr.Locked: // whosever it is
			batching.EndAll(batch, errLeave)
			return nil
		case pgerr.FateOf(err) == pgerr.Outage && try < 2:
		default:
			batching.EndAll(batch, explain("apply", err))
			return nil
		}
	}
	return nil
}

// try sends the batch, and returns the index of the failed write, or -1. With again, it blames no write for an error
// that a retry may avoid.
func (g *group) try(l *lane, batch []*batching.Write, apart, again bool) (at int, err error) {
	var needs []string
	for _, w := range batch {
		if w.Needs != "" && !slices.Contains(needs, w.Needs) {
			needs = append(needs, w.Needs)
		}
	}
	ctx := g.j.background
	if err := l.ready(ctx); err != nil {
		return -1, err
	}
	if err := l.rotate(ctx); err != nil {
		return -1, err
	}
	if len(needs) > 0 && g.j.fleet.Refusal() != nil { // a connection that was just made has shown it
		return -1, errLost
	}
	last := g.j.clock.Get().Last
	for i, w := range batch {
		if w.As = l.Member; w.Before != nil && w.Seen != l.Member {
			return i, errLeave
		}
		if w.Event.Last.After(last) { // it was decided by a clock that was reset since
			return i, errLeave
		}
	}
	statements := batching.Parts(batch, apart)
	since := l.Member.Newest.Load()
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
			w.As.Given(w.Handle)
		}
	}
	return -1, err
}

// blame returns the index of a part's only write, to be taken out. For a part of several writes it returns errApart:
// the batch goes again in pieces, to find the one that failed.
func blame(p batching.Part, err error) (at int, _ error) {
	if p.Together() {
		return -1, errApart
	}
	return p.First, err
}

// Places of a failure that are not the index of a part.
const (
	atGuard   = -2
	atCommit  = -3
	atUnclear = -4 // less the index of the part: the server answered that it does not know the result of that part
)

// send sends the parts of a batch in one round trip. An error comes with the part where it happened.
func (l *lane) send(statements []batching.Part, needs []string) (at int, tag string, err error) {
	ctx, cancel := context.WithTimeout(l.j.background, l.j.commitTime)
	defer cancel()
	b := new(pgx.Batch)
	b.Queue(connection.BeginSQL)
	settings, lock := connection.Settings, batchLock
	if l.j.locked.Any() {
		lock = heldLock
	}
	if slices.ContainsFunc(statements, batching.Part.Together) {
		settings = connection.TogetherSettings
	}
	b.Queue(settings, lock)
	l.queueGuard(b, needs)
	for _, p := range statements {
		p.AddTo(b, &l.j.sql.rows)
	}
	b.Queue("COMMIT")
	l.Warned.Store(false)
	all, most := batching.Sizes(statements)
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
	l.Guarded(time.Since(sent))
	l.j.fleet.Time.HeardAt(sent, now)
	for i, p := range statements {
		if err := p.Read(results); err != nil {
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
func (g *group) reread(l *lane, batch []*batching.Write, since int64) error {
	return l.retry(g.j.background, func(ctx context.Context, conn *pgx.Conn) error {
		taken := make(map[int64]bool)
		for _, w := range batch {
			if err := g.j.rereadOne(ctx, conn, w); err != nil {
				return err
			}
			if taken[w.Handle] || w.Before == nil && w.Handle <= since {
				w.Handle = 0
			}
			taken[w.Handle] = true
		}
		return nil
	})
}

// rereadOne sets the handle of a write that is in the database. If the row is not as it was to be written, the handle
// is 0, and the slow path decides the event.
func (j *laneJournal) rereadOne(ctx context.Context, conn *pgx.Conn, w *batching.Write) error {
	handle, args := "$1", []any{int64(0)}
	if w.Before != nil {
		args[0] = w.Before.Op.Handle
	} else {
		ref := w.Op.Ref
		handle, args = j.sql.find, []any{record.Digest(ref), []byte(ref.ID), []byte(ref.Scope), []byte(ref.Parent)}
	}
	var facts []byte
	w.Handle = 0
	err := conn.QueryRow(ctx, "SELECT handle, facts FROM "+j.schema+".operations WHERE handle = "+handle, args...).Scan(&w.Handle, &facts)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil && !bytes.Equal(facts, w.Stored.Facts) {
		w.Handle = 0
	}
	return err
}

// noRow stands for an operation that the journal does not have. It is never written to.
var noRow = new(record.Row)

// decided returns the write of an event by this process's memory, or nil.
func (j *laneJournal) decided(ev journal.Event) *batching.Write {
	before := known.HeldRow{Row: noRow}
	switch ev.Kind {
	case journal.EventBegin:
		if ev.Intent == nil || ev.Handle != 0 || ev.Ref == (journal.Ref{}) || len(ev.Intent.Aliases()) > 0 || !ev.New && ev.Intent.Naming != journal.Named {
			return nil
		}
	case journal.EventComplete, journal.EventPark, journal.EventDoubt, journal.EventCancel, journal.EventDeliver:
		if before = j.held.Get(ev.Handle); before.Row == nil || ev.Ref != (journal.Ref{}) && !store.IsNamed(&before.Op, ev.Ref) ||
			ev.Kind == journal.EventDeliver != (before.Op.State != journal.StateInFlight) || needsMarks(&before.Op, ev) {
			return nil
		}
	default:
		return nil
	}
	clock, still := j.clock.Glance(ev.At)
	if !still || j.locked.Has(ev.Ref) {
		return nil
	}
	ev.Last, ev.Unconfirmed = clock.Last, clock.Unconfirmed(ev.At)
	next, decision, err := journal.Next(before.Op, false, ev)
	if err != nil || !store.Changes(before.Op, next, decision) || next.State == journal.StateAbsent {
		return nil
	}
	add, remove := record.Remarked(&before.Op, &next)
	w := &batching.Write{Event: ev, Op: next, Decision: decision, Done: make(chan struct{}), Rider: ev.Kind == journal.EventDeliver}
	if clock.Margin(next.Terms) { // the first one of its kind: the others go by it once it is recorded, and not before
		return nil
	}
	if !before.Exists() {
		w.Stored, w.Needs = record.Encode(&next, nil, true, true), ev.Session
		switch {
		case len(add) > 0:
			w.Marks = &batching.MarkChange{Add: add}
		case w.Stored.Identity == nil && w.Stored.Alias == nil:
			w.Like = batching.LikeNew
		default:
			w.Like = batching.LikeNamed
		}
		return w
	}
	w.Before, w.Seen, w.Answered = before.Row, before.Seen, next.Answer != before.Op.Answer
	w.Stored = record.Encode(&next, before.Row, false, w.Answered)
	switch {
	case len(add)+len(remove) > 0 || ev.Object != "":
		w.Marks = &batching.MarkChange{Add: add, Remove: remove}
		if ev.Object != "" {
			w.Object = record.Sought(journal.ByObject, ev.Object)
			w.Marks.Taken = record.Sought(store.TakenBy(ev), ev.Object)
		}
	case !w.Answered || before.Sum == 0:
		w.Like = batching.LikeFollowed
	}
	return w
}

// needsMarks reports whether the event depends on the marks of other operations, so that it needs a query.
func needsMarks(before *journal.Operation, ev journal.Event) bool {
	return ev.Object != "" && ev.Kind != journal.EventComplete || before.Object != "" || len(before.Evidence) > 0
}
