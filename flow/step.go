package flow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/journal"
)

// Step makes one step of the flow that ctx belongs to, and returns what do returned.
//
// Once the result is recorded, as JSON, the step returns the recorded one, and do is not
// called again. A step that was cut off before that is made again with the same keys, so
// that its operations still take effect once. Whatever else do does is done again.
//
// Step always returns what was recorded: what JSON drops is missing the first time, too.
// The result is recorded as it is, so return no secret. T must be a type that encoding/json
// gives back whole, which an interface type is not: any other makes the step [ErrStep]
// before do is called.
//
// Names are unique within a flow, and the same on every run. They hold no slash, and
// "undo" is taken.
//
// An operation in do needs no name: it has the step's. Make one in a step. A second one is
// [onceward.ErrNameNeeded], unless it is the first one asked for again because it had no
// answer. Operations that are named by [onceward.WithOperation] may stand beside it, as
// "step/name". All of them need the context that do gets, and are over when do returns: none
// is begun after that. Likewise a flow's steps are over when its function returns; while one is made, it is not done ([ErrStep]).
//
// Ask for the operations of a step one after another, and in the same order in every run. No operation is begun
// ([onceward.ErrNotSent]) while another one of the step has no outcome, or took effect in an earlier run and has not been
// asked for in this one. So a do that chooses another card in a later run does not charge both. If nothing was sent of
// the earlier operation, it is cancelled, and the other one is begun. Pay by another card in a step of its own.
//
// An error of do's is returned as it is, and do is called again in the next run, unless the function went on: once a later
// step is done, or has begun an operation, as by another card, the step has failed for good, and further runs are told that
// error again, as [Reason] has it. What is to be tried again whatever becomes of the others is made beside them, by [Parallel].
//
// It is otherwise if an operation of the step has no outcome yet, even if an earlier run began it. The error is then an
// [*Error] with [onceward.ErrPending], [onceward.ErrOutcomeUnknown] or [onceward.ErrInFlight], and further steps return it
// too. The flow waits, even if do or the flow's function hides the error. If do fails before it asks for
// an operation that took effect in an earlier run, the run fails. The run also fails if do returns before it asks for an
// operation that is due and that no other caller sends ([onceward.Error.InBackground]).
//
// A do that returns nil may have found its work done elsewhere, and not have asked for the operation of an earlier run.
// The step waits for that operation all the same while it may still be sent, on hold included. If nothing was sent of it,
// it is cancelled. An operation that is unknown, and not on hold, does not hold up such a do.
//
// Steps come one after another, unless [Parallel] says otherwise.
func Step[T any](ctx context.Context, name string, do func(context.Context) (T, error), options ...StepOption[T]) (T, error) {
	return makeStep(ctx, name, journal.StepDone, false, encoded(do), options)
}

// encoded makes JSON of what do returns.
func encoded[T any](do func(context.Context) (T, error)) func(context.Context, *step) ([]byte, error) {
	return func(ctx context.Context, st *step) ([]byte, error) {
		result, err := do(ctx)
		if err != nil {
			return nil, err
		}
		return st.encode(result)
	}
}

// TimeStep is a step that returns the time at which it was first made. Every run of the
// flow gets the recorded time. A host with another journal, or this one after the loss of
// its journal, reads a time of its own. So make nothing of it that has to be the same
// there, such as the body of a request that goes out under a derived key.
func TimeStep(ctx context.Context, name string) (time.Time, error) {
	return makeStep[time.Time](ctx, name, journal.StepTime, false, encoded(func(ctx context.Context) (time.Time, error) {
		return placeOf(ctx).run.client.Now().UTC().Round(0), nil
	}), nil)
}

// UUIDStep is a step that returns a UUID in the form of version 4. Every run of the flow
// gets the same one. Nobody else has it, and no key on the wire equals it. It follows from
// the flow's own key and the step's name. So with onceward.Config.Secret it is the same on
// every host, and nobody can guess it without the secret.
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

// Parallel returns a context for the named steps, which may run at once, such as in the
// goroutines of an errgroup. Their order is not part of the flow, and their keys follow
// from their names. All of them are named beforehand: if one was renamed or removed, that
// is noticed before another is made in its stead, and each of them returns [ErrChanged].
// Call Parallel once for each group of steps, in sequence with the steps before and after it.
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

// StepOption changes a Step that returns a T. It is a function, and not a struct of options as
// elsewhere in this module, so that T is inferred where a step is written.
type StepOption[T any] func(*stepOptions[T])

type stepOptions[T any] struct {
	undo  func(context.Context, T) error
	begin func(context.Context) (journal.Tx, error) // of a LocalStep; nil: the journal's
}

// WithUndo gives a step what undoes it, should the flow be given up: undo gets what the
// step returned. It is a step itself: made once, with keys of its own, and again where
// it fails. Its own writes, unlike those of a LocalStep, are not one commit with its
// record: a crash between the two has it run again.
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
		return zero, st.changed(errors.New("it was stated by hand without a result, and the step returns one: state it by ResolveStep"))
	}
	if err := decodeStrictly(encoded, &result); err != nil {
		return zero, st.changed(fmt.Errorf("its recorded result does not fit: %w", err))
	}
	var o stepOptions[T]
	for _, option := range options {
		option(&o)
	}
	if o.undo != nil {
		st.keepUndo(func(ctx context.Context) error { return o.undo(ctx, result) })
	}
	if st.failed != nil {
		return zero, st.failed
	}
	return result, nil
}

// decodeStrictly takes JSON apart, if it fits and nothing of it is left over.
func decodeStrictly(encoded []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}
