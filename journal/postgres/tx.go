package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/batching"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// ask says what a transaction is for.
type ask struct {
	doing   string    // for errors: "apply", "claim", …
	at      time.Time // the caller's clock, which has been checked; zero for no caller
	needs   []string  // sessions that have to be alive, else journal.ErrSessionLost
	decides bool      // it sends, decides or forgets: refused where the journal counts as restored
	handles bool      // a handler of the application's is called
	indices bool      // its statements go by indices, whatever the server knows of the size of tables
	lanes   []any     // a condition on lanes to lock, and its arguments; connections that hold them for too long are ended; nil for none
	held    bool      // another transaction is known to hold a row of it: it leaves connections to others that need not wait

	ahead *sweptAhead // what it has swept before
}

// tx is a transaction of the slow path: by itself, on a connection of its own, behind the guard. It locks the
// operations that it reads to change them. One goroutine uses it, and it is over when the function that has it
// returns.
//
// Its methods return errors as the driver gives them. j.tx says what they mean.
type tx struct {
	j     *laneJournal
	ctx   context.Context
	conn  apptx.Runner
	as    *leased.Member // the process that runs it
	at    time.Time
	clock store.Clock // as it is to be once this commits

	jumped   bool           // the clock's place changes: j.clockJob is held, and the row of the journal locked
	amid     *journal.Event // its clock asks for a sweep that is under way, and is not kept; nil if none is
	putsOff  bool           // likewise, and its clock is ahead: it is not believed until the sweep is over
	lowered  bool           // the least margin: the lane has to keep that
	alive    map[string]bool
	onCommit []func()

	own *apptx.Own // that it is in, nil for any other

	puttingOff bool
	later      []*batching.Write // rows that flush is to write
	laterMarks [2]marksOf        // added, and removed
	laterFlows [][]any           // the arguments of updateFlow

	ahead   *sweptAhead
	allowed *allowance      // nil in a transaction of the application's
	asker   context.Context // its end gives a sweep up between two pages; nil for none
	damaged error           // the first error of a row that a sweep passed over
}

// errLost means that another transaction was faster. The transaction runs again.
var errLost = fleet.ErrLost

// errSweeps means that another transaction of this process moves the clock, such as one that sweeps. The retry waits
// without a transaction.
var errSweeps = errors.New("postgres: another transaction moves the clock")

// tx runs f in a transaction. If another transaction was in its way, tx runs f again, afresh. It returns once the
// commit is durable, and known to be. If f returns an error, the transaction is rolled back.
//
// The end of ctx stops the wait for a connection and for others' locks. A transaction that runs is ended first. So an
// error that is not of ctx means that nothing was recorded.
func (j *laneJournal) tx(ctx context.Context, a ask, f func(t *tx) error) error {
	if !a.at.IsZero() {
		if err := j.checkTime(a.at); err != nil {
			return err
		}
	}
	if a.ahead == nil {
		a.ahead = new(sweptAhead)
	}
	for try, undone := 0, 0; ; try++ {
		err := j.orClosed(j.oneTx(ctx, a, f))
		if due := (errSweepAhead{}); errors.As(err, &due) {
			if err := j.sweepAhead(ctx, a.ahead, due.ev); err != nil {
				return err
			}
			continue
		}
		if err == nil || !again(err) {
			return explain(a.doing, err)
		}
		switch locked := pgerr.FateOf(err) == pgerr.Locked; {
		case locked && a.lanes != nil:
			j.fleet.Evict(ctx, a.lanes[0].(string), a.lanes[1:]...)
		case locked, errors.Is(err, errSweeps):
			a.held = true
		default:
			if undone++; undone == mostUndone {
				return undoneFor(a.doing, err)
			}
		}
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(min(try+1, 10)) * int64(5*time.Millisecond)))):
		case <-ctx.Done():
			return errors.Join(j.ended(ctx), explain(a.doing, err))
		case <-j.background.Done():
			return journal.ErrClosed
		}
	}
}

// mostUndone limits the tries of a transaction if another one was in its way, or seems to have been: a trigger may
// raise such an error forever. The tries take about a second. Waits for a lock are not counted.
const mostUndone = 50

func undoneFor(doing string, err error) error {
	if pgerr.Code(err) == "" {
		return &Error{Doing: doing, Reason: "other transactions were faster, or the server undid it at its COMMIT, each of 50 times: try again"}
	}
	return explain(doing, err)
}

// oneTx tries once, on a free connection. If another transaction is known to hold a row (a.held), oneTx first waits
// for its turn, so that others get connections in between.
func (j *laneJournal) oneTx(ctx context.Context, a ask, f func(t *tx) error) error {
	lanes := j.slow
	if a.handles {
		lanes = j.handlers
	} else if a.held {
		select {
		case j.patient <- struct{}{}:
			defer func() { <-j.patient }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case l := <-lanes:
		defer func() {
			if a.handles && l.conn != nil && !asMade(l.conn) {
				l.hangUp()
			}
			lanes <- l
		}()
		return j.tryTx(ctx, l, a, f)
	case <-ctx.Done():
		return j.ended(ctx)
	}
}

// ended returns journal.ErrClosed if the Journal was closed, or else the error of ctx.
func (j *laneJournal) ended(ctx context.Context) error {
	if j.background.Err() != nil {
		return journal.ErrClosed
	}
	return ctx.Err()
}

// orClosed returns journal.ErrClosed in the place of a cancellation by Close, unless the result is in doubt.
func (j *laneJournal) orClosed(err error) error {
	if errors.Is(err, context.Canceled) && j.background.Err() != nil && !errors.Is(err, errInDoubt) {
		return journal.ErrClosed
	}
	return err
}

// again reports whether another try may succeed.
func again(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, errSweeps) || pgerr.MayPass(err)
}

func (j *laneJournal) tryTx(ctx context.Context, l *lane, a ask, f func(t *tx) error) error {
	j.clock.Glance(a.at)
	var t *tx
	began := time.Now()
	err := l.transact(ctx, a, func(own *allowance, conn *pgx.Conn) error {
		if t != nil {
			t.release(false)
		}
		t = &tx{j: j, ctx: own.ctx, allowed: own, ahead: a.ahead, conn: conn, as: l.Member, at: a.at, alive: make(map[string]bool)}
		if err := t.see(); err != nil {
			return err
		}
		if err := f(t); err != nil || !t.lowered {
			return err
		}
		// The guard came before, and has kept what was least then.
		_, err := t.exec("UPDATE "+j.schema+".lanes SET least_margin = $3 WHERE process = $1 AND lane = $2", l.Member.ID, l.Number, int64(t.clock.LeastMargin))
		return err
	})
	if t != nil {
		t.release(err == nil)
	}
	if err == nil {
		j.committed(1, began)
	}
	return err
}

// committed hands a commit to Options.Committed.
func (j *laneJournal) committed(requests int, began time.Time) {
	if j.opts.Committed != nil {
		j.opts.Committed(requests, time.Since(began))
	}
}

// release ends the transaction for this process.
func (t *tx) release(committed bool) {
	if committed {
		for _, f := range t.onCommit {
			f()
		}
	}
	if t.jumped {
		if committed && t.amid == nil {
			t.j.clock.Set(t.clock)
		}
		t.jumped = false
		<-t.j.clockJob
	}
}

// exec runs a statement and returns the number of rows that it affected.
func (t *tx) exec(sql string, args ...any) (int64, error) {
	tag, err := t.conn.Exec(t.ctx, sql, args...)
	return tag.RowsAffected(), err
}

// read returns the operation whose handle the expression is, with its bodies and its answer, or nil for none. It is
// locked until the end of the transaction. The lock is a statement of its own, so that the other one sees the changes
// of an earlier holder.
func (t *tx) read(handle string, args ...any) (*record.Row, error) {
	b := new(pgx.Batch)
	b.Queue(t.j.sql.byHandle+handle+" FOR UPDATE", args...)
	b.Queue("SELECT "+record.Columns+", r.body, a.head, a.body"+t.j.fromOperations()+
		"LEFT JOIN "+t.j.schema+".answers a ON a.handle = o.handle WHERE o.handle = "+handle, args...)
	results := t.conn.SendBatch(t.ctx, b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	r, err := record.ScanWhole(results.QueryRow())
	if errors.Is(err, pgx.ErrNoRows) {
		r, err = nil, nil
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	return r, err
}

// byHandle returns the operation with that handle, nil for none, and locks it.
func (t *tx) byHandle(handle int64) (*record.Row, error) { return t.read("$1", handle) }

// byRef returns the operation of that name, its own or its second one, nil for none, and locks it.
func (t *tx) byRef(ref journal.Ref) (*record.Row, error) {
	return t.read(t.j.sql.find, record.Digest(ref), []byte(ref.ID), []byte(ref.Scope), []byte(ref.Parent))
}

// find returns the operation that ev names, nil for none, and locks it.
func (t *tx) find(ev *journal.Event) (*record.Row, error) {
	if ev.Handle != 0 {
		r, err := t.byHandle(ev.Handle)
		if err != nil || r != nil && (ev.Ref == (journal.Ref{}) || store.IsNamed(&r.Op, ev.Ref)) {
			return r, err
		}
	}
	if ev.New || ev.Ref == (journal.Ref{}) {
		return nil, nil
	}
	if ev.Intent != nil && ev.Intent.Naming == journal.Named { // no key that was made here has a name
		return t.read(t.j.sql.findNamed, record.Digest(ev.Ref))
	}
	return t.byRef(ev.Ref)
}

// next runs journal.Next on the operation, nil for one that the journal does not have, and writes the result. It
// returns the operation as its row is then.
func (t *tx) next(r *record.Row, ev journal.Event) (journal.Result, *record.Row, error) {
	if r == nil {
		r = new(record.Row)
	}
	r = t.asSwept(r)
	if ev.Intent != nil {
		for _, name := range ev.Intent.Rivals(&r.Op) {
			holder, err := t.byRef(name)
			if err != nil {
				return journal.Result{}, nil, err
			}
			if holder != nil && r.Op.YieldsTo(&holder.Op) {
				return t.result(holder.Op, journal.Misuse, ev), holder, nil
			}
		}
	}
	live, err := t.holds(&r.Op, ev.Kind)
	if err != nil {
		return journal.Result{}, nil, err
	}
	if ev.Taken, err = t.takes(&r.Op, ev); err != nil {
		return journal.Result{}, nil, err
	}
	if ev.Sole, err = t.sole(&r.Op, ev); err != nil {
		return journal.Result{}, nil, err
	}
	ev.Last, ev.Unconfirmed, ev.Ahead = t.clock.Last, t.unconfirmed(ev.At), t.clock.Ahead
	next, decision, err := journal.Next(r.Op, live, ev)
	if err != nil {
		return journal.Result{}, nil, err
	}
	switch {
	case next.State == journal.StateAbsent && r.Exists():
		if err := t.remove(r); err != nil {
			return journal.Result{}, nil, err
		}
	case store.Changes(r.Op, next, decision):
		if r, err = t.put(r, next); err != nil {
			return journal.Result{}, nil, err
		}
		next = r.Op
	default:
		next = r.Op
	}
	after, as := r, t.as
	t.onCommit = append(t.onCommit, func() { t.j.held.Keep(after, as, t.j.fleet.Sessions.Has(after.Op.Holder)) })
	return t.result(next, decision, ev), r, nil
}

func (t *tx) result(op journal.Operation, decision journal.Decision, ev journal.Event) journal.Result {
	return journal.Result{Operation: op, Decision: decision, Last: t.clock.Last, Unconfirmed: t.unconfirmed(ev.At)}
}

// put writes the operation over before, and returns its new row.
func (t *tx) put(before *record.Row, op journal.Operation) (*record.Row, error) {
	t.margin(op.Terms)
	if !before.Exists() {
		return t.insert(op)
	}
	requestChanged := !reflect.DeepEqual(before.Op.Request, op.Request)
	answerChanged := before.Op.Answer != op.Answer
	s := record.Encode(&op, before, requestChanged, answerChanged)
	if t.puttingOff && !requestChanged && !answerChanged {
		t.later = append(t.later, &batching.Write{Before: before, Op: op, Stored: s, Like: batching.LikeFollowed})
	} else if n, err := t.exec(t.j.sql.rows.Update, record.UpdateArgs(before, &op, &s)...); err != nil {
		return nil, err
	} else if n == 0 {
		return nil, errLost
	}
	if err := t.remark(op.Handle, &before.Op, &op); err != nil {
		return nil, err
	}
	after := &record.Row{Op: op, Revision: before.Revision + 1, Request: before.Request, Sum: s.Sum}
	if requestChanged {
		after.Request = s.Request
		if err := t.putBody("requests", op.Handle, s.Request, s.RequestBody); err != nil {
			return nil, err
		}
	}
	if answerChanged {
		if err := t.putBody("answers", op.Handle, s.Answer, s.AnswerBody); err != nil {
			return nil, err
		}
	}
	return after, nil
}

// flush writes all changes that were put off, in one round trip.
func (t *tx) flush() error {
	later, marks, flows := t.later, t.laterMarks, t.laterFlows
	t.puttingOff, t.later, t.laterMarks, t.laterFlows = false, nil, [2]marksOf{}, nil
	b := new(pgx.Batch)
	statements := batching.Parts(later, false)
	if len(statements) > 0 {
		b.Queue(connection.TogetherPlans)
	}
	for _, p := range statements {
		p.AddTo(b, &t.j.sql.rows)
	}
	for i, sql := range [...]string{addTheseMarks, removeTheseMarks} {
		if len(marks[i].hashes) > 0 {
			b.Queue(t.j.in(sql), marks[i].hashes, marks[i].handles)
		}
	}
	for _, args := range flows {
		b.Queue(t.j.in(record.UpdateFlow), args...)
	}
	if b.Len() == 0 {
		return nil
	}
	results := t.conn.SendBatch(t.ctx, b)
	defer results.Close()
	if len(statements) > 0 {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	for _, p := range statements {
		if err := p.Read(results); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(later, func(w *batching.Write) bool { return w.Handle == 0 }) {
		return errLost
	}
	return results.Close()
}

func (t *tx) insert(op journal.Operation) (*record.Row, error) {
	s := record.Encode(&op, nil, true, true)
	var handle int64
	err := t.conn.QueryRow(t.ctx, t.j.sql.rows.Insert, record.InsertArgs(&op, &s)...).Scan(&handle)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errLost
	}
	if err != nil {
		return nil, err
	}
	op.Handle = handle
	if as := t.as; as != nil {
		t.onCommit = append(t.onCommit, func() { as.Given(handle) })
	}
	return &record.Row{Op: op, Request: s.Request, Sum: s.Sum}, t.remark(handle, &journal.Operation{}, &op)
}

// putBody writes a request or an answer, or removes it if head is nil.
func (t *tx) putBody(table string, handle int64, head, body []byte) error {
	if head == nil {
		_, err := t.exec("DELETE FROM "+t.j.schema+"."+table+" WHERE handle = $1", handle)
		return err
	}
	_, err := t.exec("INSERT INTO "+t.j.schema+"."+table+" (handle, head, body) VALUES ($1, $2, $3) "+
		"ON CONFLICT (handle) DO UPDATE SET head = excluded.head, body = excluded.body", handle, head, body)
	return err
}

// remove deletes the operation.
func (t *tx) remove(r *record.Row) error {
	identity := record.Encode(&r.Op, r, false, false).Identity
	n, err := t.exec("DELETE FROM "+t.j.schema+".operations WHERE handle = $1 AND revision = $2 AND identity IS NOT DISTINCT FROM $3",
		r.Op.Handle, r.Revision, identity)
	if err != nil {
		return err
	}
	if n == 0 {
		return errLost
	}
	for _, table := range [...]string{"requests", "answers"} {
		if err := t.putBody(table, r.Op.Handle, nil, nil); err != nil {
			return err
		}
	}
	if m, is := store.Reaped(&r.Op); is {
		if _, err := t.do(addObject, record.MarkHash(m)); err != nil {
			return err
		}
	}
	return t.remark(r.Op.Handle, &r.Op, &journal.Operation{})
}

// holds reports whether the holder of the operation is alive. It returns false for events that don't depend on that.
func (t *tx) holds(op *journal.Operation, kind journal.EventKind) (bool, error) {
	switch {
	case op.Holder == "":
		return false, nil
	case kind == journal.EventClaim:
	case op.State == journal.StateInFlight && (kind == journal.EventBegin || kind == journal.EventEnqueue || kind == journal.EventResolve || kind == journal.EventAdopt):
	default:
		return false, nil
	}
	return t.live(op.Holder)
}

// live reports whether a session is alive: it is there and was not buried. The dead stay dead.
func (t *tx) live(id string) (bool, error) {
	if alive, known := t.alive[id]; known {
		return alive, nil
	}
	var alive bool
	err := t.conn.QueryRow(t.ctx, "SELECT EXISTS (SELECT 1 FROM "+t.j.schema+".sessions WHERE id = $1 AND buried_at IS NULL)", id).Scan(&alive)
	if err != nil {
		return false, err
	}
	t.alive[id] = alive
	return alive, nil
}

// note adds a line to the journal's history.
func (t *tx) note(what string) error { return t.j.fleet.Note(t.ctx, t.conn, what) }
