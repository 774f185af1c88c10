package flow

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/journal"
)

// Step makes one step in ctx's flow, and returns do's result.
//
// The result is recorded as JSON. From then on the step returns the recorded result, and does not call do again. A
// step which was cut off earlier is made again with the same keys, so the operations still take effect once. All
// other work in do is done again.
//
// Step always returns the recorded result: fields dropped by JSON are missing the first time, too. The record holds the
// unchanged result, so return no secret. T must be a type which encoding/json gives back whole. Any other type,
// such as an interface, makes the step [ErrStep] before do is called.
//
// Names are unique within a flow, and the same on every run. They hold no slash, and "undo" is taken.
//
// # Operations in a step
//
// An operation in do needs no name: the step's name serves. Make one such operation in a step. A second one is
// [onceward.ErrNameNeeded], unless it repeats the first one for want of an answer. Operations named by
// [onceward.WithOperation] may stand beside the first one, as "step/name". All operations need do's context, and none
// begins after do returns. Likewise, a flow's steps are over when the function returns. A step in progress is not done
// ([ErrStep]).
//
// Make a step's operations one after another, and in the same order in every run. A new operation is
// [onceward.ErrNotSent] in two cases: another one of the step has no outcome, or another one took effect in an earlier
// run and the present run has not asked for it. So if do chooses another card in a later run, only one card is charged.
// If nothing was sent for the earlier operation, the operation is cancelled, and the new one begins. Pay by another
// card in a separate step.
//
// # Errors
//
// Step returns do's error unchanged. The next run calls do again, unless the function went on. Once a later step is
// done, or has begun an operation, the failure is permanent: further runs get the same error again, as [Reason]
// describes. Use [Parallel] for steps which are to be tried again in any case.
//
// If an operation in the step has no outcome yet, the error is an [*Error] with [onceward.ErrPending],
// [onceward.ErrOutcomeUnknown] or [onceward.ErrInFlight], no matter which run began the operation. Further
// steps return the error too, and the flow waits, even if do or the flow's function hides the error.
//
// The run fails in two cases. In the first, do fails before asking for an operation which took effect in an earlier
// run. In the second, do returns before asking for an operation which is due and which no other caller sends
// ([onceward.Error.InBackground]).
//
// If do returns nil, do may have found the work done elsewhere, without asking for an earlier run's operation. The step
// still waits for such an operation while it may be sent, even on hold. If nothing was sent for the operation, the
// operation is cancelled. An unknown operation does not delay such a do, unless the operation is on hold.
//
// Steps run one after another, except below [Parallel].
func Step[T any](ctx context.Context, name string, do func(context.Context) (T, error), options ...StepOption[T]) (T, error) {
	return makeStep(ctx, name, journal.StepDone, false, encoded(do), options)
}

// encoded returns a function which makes JSON from do's result.
func encoded[T any](do func(context.Context) (T, error)) func(context.Context, *step) ([]byte, error) {
	return func(ctx context.Context, st *step) ([]byte, error) {
		result, err := do(ctx)
		if err != nil {
			return nil, err
		}
		return st.encode(result)
	}
}

// TimeStep is a step which returns the time of the step's first run. Every run of the flow gets the recorded time. A
// host with another journal reads a separate time, and so does a host after the journal's loss. So don't use TimeStep
// for values which have to be the same on both, such as a request's body under a derived key.
func TimeStep(ctx context.Context, name string) (time.Time, error) {
	return makeStep[time.Time](ctx, name, journal.StepTime, false, encoded(func(ctx context.Context) (time.Time, error) {
		return placeOf(ctx).run.core.Now().UTC().Round(0), nil
	}), nil)
}

// UUIDStep is a step which returns a UUID in version 4's form. Every run of the flow gets the same UUID. The UUID is
// unique, differs from every key on the wire, and is derived from the flow's own key and the step's name. With
// onceward.Config.Secret the UUID is the same on every host, and can't be guessed without the secret.
func UUIDStep(ctx context.Context, name string) (string, error) {
	return makeStep[string](ctx, name, journal.StepUUID, false, encoded(func(ctx context.Context) (string, error) {
		return uuidStep(placeOf(ctx).run.parent.Key, name), nil
	}), nil)
}

// uuidLabel keeps these UUIDs from all keys.
const uuidLabel = "onceward uuid step v1"

func uuidStep(flow, name string) string {
	h := sha256.New()
	for _, part := range []string{uuidLabel, flow, name} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // so that neighbours can't trade bytes
		h.Write([]byte(part))
	}
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // RFC 9562 section 5.4
	return id.String()
}

// Parallel returns a context for the named steps, which may run at once, such as in an errgroup's goroutines.
// The steps' order is not part of the flow, and their keys follow from their names. Name all steps beforehand. A renamed
// or removed step is then noticed before another is made in its stead, and each step returns [ErrChanged]. Call Parallel
// once for each group of steps, in sequence with the steps before and after the group.
func Parallel(ctx context.Context, steps ...string) context.Context {
	p := placeOf(ctx)
	if p == nil || p.section != 0 || p.step != nil {
		return ctx
	}
	r := p.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position++
	for _, s := range r.flow.Steps {
		name := nameOf(&s)
		made := s.Kind != journal.StepUndone && s.Kind != journal.StepFailed
		if s.Position == r.position && made && !slices.Contains(steps, name) {
			st := &step{run: r, name: name}
			_ = st.changedTo(name, errors.New("it is recorded, and Parallel is not given it any more"))
		}
	}
	return context.WithValue(ctx, placeKey{}, &place{run: r, section: r.position, steps: steps})
}

// StepOption configures a Step with a result T. StepOption is a function, and not a struct as elsewhere in this module,
// so T is inferred.
type StepOption[T any] func(*stepOptions[T])

type stepOptions[T any] struct {
	undo      func(context.Context, T) error
	undoLocal func(context.Context, *step, journal.Tx, T) error
	begin     func(context.Context) (journal.Tx, error) // for a LocalStep and a local undo; nil: the journal's
}

// WithUndo sets the function which undoes a step if the flow is given up. The function gets the step's result. An undo is
// a step itself: made once, with separate keys, and again after a failure. The undo's own writes and the record are not
// one commit. After a crash between the two, the undo runs again. See [WithLocalUndo] for writes to the journal's database.
func WithUndo[T any](undo func(ctx context.Context, result T) error) StepOption[T] {
	return func(o *stepOptions[T]) { o.undo = undo }
}

// makeStep returns a step's recorded result, or has do make the step. do returns the result as JSON. The flow can do
// without a spare step's result.
func makeStep[T any](ctx context.Context, name string, kind journal.StepKind, spare bool, do func(context.Context, *step) ([]byte, error), options []StepOption[T]) (T, error) {
	var zero, result T
	if p, reason := placeOf(ctx), checkResult(reflect.TypeFor[T]()); p != nil && reason != "" {
		return zero, (&step{run: p.run, name: name}).misuse(reason, nil)
	}
	st, err := enterStep(ctx, name, kind, spare)
	if err != nil {
		return zero, err
	}
	encoded := st.result
	if st.executes {
		if encoded, err = st.make(ctx, do); err != nil {
			return zero, err
		}
	}
	if st.stated && spare {
		encoded = slices.Concat([]byte(`{"result":`), encoded, []byte("}"))
	}
	if st.stated && string(encoded) == "null" && !takesNull(reflect.TypeFor[T]()) {
		return zero, st.changed(errors.New("it was resolved by hand without a result, and the step returns one: give it by ResolveStep"))
	}
	if err := decodeStrictly(encoded, &result); err != nil {
		return zero, st.changed(fmt.Errorf("its recorded result does not fit: %w", err))
	}
	var o stepOptions[T]
	for _, option := range options {
		option(&o)
	}
	switch {
	case o.undo != nil && o.undoLocal != nil:
		return zero, st.misuse("it has two undos: give WithUndo or WithLocalUndo", nil)
	case o.undo != nil:
		st.keepUndo(func(ctx context.Context, _ *step) error { return o.undo(ctx, result) })
	case o.undoLocal != nil:
		st.keepUndo(func(ctx context.Context, by *step) error {
			_, err := by.inTransaction(ctx, o.begin, func(ctx context.Context, tx journal.Tx) ([]byte, error) {
				return nil, o.undoLocal(ctx, by, tx, result)
			})
			return err
		})
	}
	if st.failed != nil {
		return zero, st.failed
	}
	return result, nil
}
