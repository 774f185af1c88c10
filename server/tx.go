package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

var (
	// ErrNoTransaction says that a context belongs neither to a request in [Server.Atomic] nor to [Once].
	ErrNoTransaction = errors.New("server: the context is not of a request that Atomic or Once serves")

	// ErrReplayed says that another process has answered the request meanwhile: return, and the caller gets the other's
	// answer.
	ErrReplayed = errors.New("server: another process has answered the request: return, and the client gets its answer")

	// ErrRefused says that the server refuses the key: return, and the caller gets the refusal.
	ErrRefused = errors.New("server: the request is refused for its key: return, and the client gets the refusal")

	// ErrInTransaction says that a transaction was asked for in another open transaction, and would wait for the end.
	// Examples are Once after Tx in a request to Atomic, and Tx in consume.Do.
	ErrInTransaction = errors.New("server: a transaction was asked for in another open one, such as Once in that of a request of Atomic, or Tx in that of consume.Do: write in the open transaction, or end it first")

	errAnswerTooLarge  = errors.New("server: the answer is larger than Endpoint.MaxAnswer")
	errHandlerReturned = errors.New("server: the handler has returned, so its answer is as it is")
	errKeyFree         = errors.New("server: the key has no receipt")
)

type runKey struct{}

// runUnder returns the run that ctx belongs to, or nil.
func runUnder(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// misuse returns err, and keeps a handler that then returns without an answer from succeeding.
func (r *run) misuse(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.misused = err
	}
	return err
}

// Tx returns the request's transaction as a *sql.Tx. The first call begins the transaction: validate the request before.
// The caller neither commits nor rolls back, and uses the transaction in the handler's goroutine alone. The error wraps
// ErrNoTransaction, ErrReplayed, ErrRefused or the journal's error. Return after an error, and the server makes the answer
// from the error. Outside Atomic and Once, as in a GET, the handler has to answer ErrNoTransaction itself. With
// postgres.Begin, ask for a pgx.Tx by TxAs.
func Tx(ctx context.Context) (*sql.Tx, error) { return TxAs[*sql.Tx](ctx) }

// TxAs is [Tx] for drivers with a transaction of another type, such as pgx.Tx.
func TxAs[T any](ctx context.Context) (T, error) {
	var none T
	tx, err := JournalTx(ctx)
	if err != nil {
		return none, err
	}
	own, ok := tx.Driver().(T)
	if !ok {
		return none, runUnder(ctx).misuse(fmt.Errorf("server: the transaction, a %T, is no %s: ask TxAs for the type that Options.Begin begins, such as pgx.Tx with postgres.Begin", tx.Driver(), reflect.TypeFor[T]()))
	}
	return own, nil
}

// JournalTx returns the request's transaction for [onceward.Client.Enqueue]. The enqueued operations exist if and
// only if the answer does. JournalTx returns the same errors as [Tx].
func JournalTx(ctx context.Context) (journal.Tx, error) {
	switch r := runUnder(ctx); {
	case r == nil:
		return nil, ErrNoTransaction
	case r.repeatable:
		return nil, r.misuse(ErrNoTransaction)
	case seam.IsInTransaction(ctx) && !r.isOpen():
		return nil, r.misuse(ErrInTransaction)
	default:
		return r.begin()
	}
}

// Release keeps nothing from the request: the writes are rolled back, the answer goes out, and the key is free.
// Release does nothing outside a request.
func Release(ctx context.Context) {
	if r := runUnder(ctx); r != nil {
		r.released.Store(true)
	}
}

// ReceiptOf returns the record for the request's key, and false before the request's first [Tx] or without a key.
func ReceiptOf(ctx context.Context) (journal.Receipt, bool) {
	r := runUnder(ctx)
	if r == nil || r.repeatable {
		return journal.Receipt{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.receipt, r.tx != nil && !r.keyless
}

// begin begins the transaction and reserves the key in it, once.
func (r *run) begin() (journal.Tx, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return nil, fmt.Errorf("%w: the request is over", ErrNoTransaction)
	case r.failed != nil:
		return nil, r.failed
	case r.tx != nil:
		return r.tx, nil
	}
	r.failed = r.reserve()
	if r.failed != nil {
		r.rollback()
		return nil, r.failed
	}
	return r.tx, nil
}

// reserve begins the transaction and reserves the key. The decision, unless it is to go on, is the request's answer. The caller
// holds r.mu.
func (r *run) reserve() (err error) {
	r.timer = time.AfterFunc(r.held, r.cancel) // not every driver looks at the context in which a transaction began
	if r.tx, err = r.server.opts.Begin(r.ctx); err != nil {
		r.problem = r.problemOf(err)
		return err
	}
	if r.keyless {
		return nil
	}
	return r.decide(r.server.receipts.ReceiveTx(r.ctx, r.tx, r.event(machine.ReceiptReserve)))
}

// decide acts on the decision about the reservation. The caller holds r.mu.
func (r *run) decide(result machine.ReceiptResult, err error) error {
	if err != nil {
		r.problem = r.problemOf(err)
		return err
	}
	switch result.Decision {
	case machine.Execute:
		r.receipt, r.again = result.Receipt, result.Again
		if r.isExpired() {
			r.problem = &keyExpired
			return ErrRefused
		}
		return nil
	case machine.Replay:
		r.replay = &result.Receipt
		return ErrReplayed
	}
	r.problem = refusals[result.Decision]
	return ErrRefused
}

// isEarlier reports whether an operation below the request belongs to an earlier request with the same key. If so,
// isEarlier refuses the request: the client would not make the operation again, and the request's rows would lack the
// operation.
//
// An earlier request began at least minRetain before the receipt, and ran for at most maxLimit. An operation from
// this request may be older than the receipt too, if another release has served the request by Repeatable. Repeatable
// has no receipt yet, and writes nothing beside the operations. There, only an operation without an answer shows that
// the key has expired. Under Atomic, a direct call comes before the receipt too: isExpired judges the call later.
func (r *run) isEarlier(op *journal.Operation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case op.Tombstone:
	case r.receipt.State == journal.ReceiptAbsent:
		if r.oldest.IsZero() || op.CreatedAt.Before(r.oldest) {
			r.oldest = op.CreatedAt
		}
		return false
	case !op.CreatedAt.Before(r.begun().Add(maxLimit - minRetain)):
		return false
	}
	if !r.ended {
		r.failed, r.problem = ErrRefused, &keyExpired
	}
	return true
}

// begun returns when the receipt was made. The caller holds r.mu.
func (r *run) begun() time.Time { return r.receipt.ExpiresAt.Add(-r.base.Keep) }

// isExpired reports whether an operation that the handler met before asking for the transaction belongs to an earlier
// request with the same key, whose receipt is over. A younger operation belongs to a run that left no receipt: the
// run was killed, or answered by a 5xx. The caller holds r.mu.
func (r *run) isExpired() bool {
	life := min(r.base.Keep+r.base.Refuse, retain+refuseFor) // an earlier deploy of the program may have kept it for less time
	if r.again {
		life = minRetain - maxLimit
	}
	return !r.oldest.IsZero() && !r.oldest.After(r.begun().Add(-life))
}

// refusals are the problems that answer a request if the request's receipt prevents serving.
var refusals = map[machine.Decision]*Problem{
	machine.Misuse: &keyReused, machine.Stop: &outcomeUnknown, machine.Gone: &keyExpired, machine.Wait: &inFlight,
}

// problemOf is problemOf for an error that may come from the end of the handler's time.
func (r *run) problemOf(err error) *Problem {
	if r.ctx.Err() != nil {
		return &tooSlow
	}
	return problemOf(err)
}

// problemOf returns the problem that answers for a journal error. Nothing from the request is recorded then.
func problemOf(err error) *Problem {
	switch {
	case errors.Is(err, errIncomparable):
		return &newerRelease
	case errors.Is(err, journal.ErrRestored):
		return &storeRestored
	}
	return &storeFailed
}

// rollback ends the transaction, if there is one, and keeps nothing. The caller holds r.mu.
func (r *run) rollback() {
	if r.tx != nil {
		grace.Rollback(r.ctx, r.tx)
		r.tx = nil
	}
	if r.timer != nil {
		r.timer.Stop()
	}
}
