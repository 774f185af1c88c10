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

// Step makes one step of the flow that ctx belongs to, and returns do's result.
//
// The result is recorded as JSON. From then on the step returns the recorded result, and does not call do again. A
// step that was cut off before that is made again with the same keys, so its operations still take effect once. All
// other work in do is done again.
//
// Step always returns the recorded result: fields that JSON drops are missing the first time, too. The record holds
// the result as it is, so return no secret. T must be a type that encoding/json gives back whole. Any other type,
// such as an interface, makes the step [ErrStep] before do is called.
//
// Names are unique within a flow, and the same on every run. They hold no slash, and "undo" is taken.
//
// # Operations in a step
//
// An operation in do needs no name: it has the step's. Make one in a step. A second one is [onceward.ErrNameNeeded],
// unless it repeats the first one because that had no answer. Operations that are named by [onceward.WithOperation]
// may stand beside it, as "step/name". All of them need the context of do, and none begins after do returns.
// Likewise, a flow's steps are over when its function returns. While a step is being made it is not done ([ErrStep]).
//
// Make the operations of a step one after another, and in the same order in every run. A new operation is
// [onceward.ErrNotSent] in two cases: another one of the step has no outcome, or another one took effect in an
// earlier run and this run has not asked for it. So a do that chooses another card in a later run does not charge
// both. If nothing was sent of the earlier operation, it is cancelled, and the new one begins. Pay by another card in
// a step of its own.
//
// # Errors
//
// Step returns an error of do as it is. The next run calls do again, unless the function went on. Once a later step
// is done, or has begun an operation, the failure is permanent: further runs get that error again, as [Reason]
// describes. Use [Parallel] for steps that are to be tried again in any case.
//
// If an operation of the step has no outcome yet, the error is an [*Error] with [onceward.ErrPending],
// [onceward.ErrOutcomeUnknown] or [onceward.ErrInFlight]. It does not matter which run began the operation. Further
// steps return the error too, and the flow waits, even if do or the flow's function hides the error.
//
// The run fails in two cases. One is that do fails before it asks for an operation that took effect in an earlier
// run. The other is that do returns before it asks for an operation that is due and that no other caller sends
// ([onceward.Error.InBackground]).
//
// A do that returns nil may have found its work done elsewhere, without asking for the operation of an earlier run.
// The step still waits for that operation while it may be sent, even if it is on hold. If nothing was sent of it, it
// is cancelled. An unknown operation that is not on hold does not delay such a do.
//
// Steps run one after another, except below [Parallel].
func Step[T any](ctx context.Context, name string, do func(context.Context) (T, error), options ...StepOption[T]) (T, error) {
	return makeStep(ctx, name, journal.StepDone, false, encoded(do), options)
}

// encoded returns a function that makes JSON of do's result.
func encoded[T any](do func(context.Context) (T, error)) func(context.Context, *step) ([]byte, error) {
	return func(ctx context.Context, st *step) ([]byte, error) {
		result, err := do(ctx)
		if err != nil {
			return nil, err
		}
		return st.encode(result)
	}
}

// TimeStep is a step that returns the time of its first run. Every run of the flow gets the recorded time. A host
// with another journal reads a time of its own, and so does this one after the loss of its journal. So don't use it
// for anything that has to be the same there, such as the body of a request under a derived key.
func TimeStep(ctx context.Context, name string) (time.Time, error) {
	return makeStep[time.Time](ctx, name, journal.StepTime, false, encoded(func(ctx context.Context) (time.Time, error) {
		return placeOf(ctx).run.core.Now().UTC().Round(0), nil
	}), nil)
}

// UUIDStep is a step that returns a UUID in the form of version 4. Every run of the flow gets the same one. It is
// unique, and no key on the wire equals it. It is derived from the flow's own key and the step's name. With
// onceward.Config.Secret it is the same on every host, and can't be guessed without the secret.
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

// Parallel returns a context for the named steps, which may run at once, such as in the goroutines of an errgroup.
// Their order is not part of the flow, and their keys follow from their names. Name all of them beforehand. If one
// was renamed or removed, that is then noticed before another is made in its stead, and each of them returns
// [ErrChanged]. Call Parallel once for each group of steps, in sequence with the steps before and after it.
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

// StepOption configures a Step that returns a T. It is a function, and not a struct of options as elsewhere in this
// module, so that T is inferred.
type StepOption[T any] func(*stepOptions[T])

type stepOptions[T any] struct {
	undo      func(context.Context, T) error
	undoLocal func(context.Context, *step, journal.Tx, T) error
	begin     func(context.Context) (journal.Tx, error) // of a LocalStep and a local undo; nil: the journal's
}

// WithUndo sets the function that undoes a step if the flow is given up. undo gets the step's result. It is a step
// itself: it is made once, with keys of its own, and again if it fails. Its own writes and its record are not one
// commit: after a crash between the two it runs again. See [WithLocalUndo] for writes to the journal's database.
func WithUndo[T any](undo func(ctx context.Context, result T) error) StepOption[T] {
	return func(o *stepOptions[T]) { o.undo = undo }
}

// makeStep returns what is recorded of a step, or has do make it, which returns its
// result as JSON. The flow does without the result of a spare step.
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
