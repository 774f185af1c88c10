package onceward

import (
	"bytes"
	"context"
	"crypto/sha256"
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

// Step makes one step of the flow that ctx belongs to, and returns what do returned. It
// is made once: once its result is recorded, as JSON, the step returns that, decoded,
// and do is not called again. A step that was cut off before is made again, with the
// same keys, so that the effect of its operations is still one; what do does besides is
// done again. What Step returns is always what was recorded: what JSON drops is not in
// it the first time either. It is recorded as it is: return no secret. T is no interface
// type, of which JSON could not tell what to make, and holds nothing else that
// encoding/json can't give back: such a step is ErrStep before do is called.
//
// Names are unique within a flow, and the same on every run. They hold no slash, and
// "undo" is taken.
//
// An operation in do needs no name: it is called for the step. There is one to a step,
// which is the discipline; a second one is ErrNameNeeded, unless it is the first one
// asked for again since that had no answer. Operations with a name by WithOperation may
// stand beside it, as "step/name". All of them need the context that do gets, and are
// over when do returns.
//
// An error of do's is returned as it is, nothing is recorded, and do is called again in
// the next run. But where an operation of the step has no outcome yet, the error is a
// *FlowError with ErrPending, ErrOutcomeUnknown or ErrInFlight, further steps return it
// too, and the flow waits, whatever do and the flow's function make of it. An unknown
// one does not hold up a do that returns nil: it has found out by itself.
//
// Steps come one after another, unless Parallel says otherwise.
func Step[T any](ctx context.Context, name string, do func(context.Context) (T, error), options ...StepOption[T]) (T, error) {
	return makeStep(ctx, name, journal.StepDone, encoded(do), options)
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

// TimeStep is the time, read once: every run of the flow gets the first one's, as long as
// there is its record. It can't be derived as a UUIDStep is: a host with another journal,
// or this one after the loss of it, reads its own time. What has to be the same there, such
// as the body of a request that goes out under a derived key, is not made of it.
func TimeStep(ctx context.Context, name string) (time.Time, error) {
	return makeStep[time.Time](ctx, name, journal.StepTime, encoded(func(ctx context.Context) (time.Time, error) {
		return placeOf(ctx).run.now().UTC().Round(0), nil
	}), nil)
}

// UUIDStep is a UUID in the form of version 4 that nobody else has, and no key on the wire
// is: every run of the flow gets the same one. It follows from the flow's own key and the
// step's name; with Config.Secret it is the same on every host, as keys are, and nobody can
// guess it without that.
func UUIDStep(ctx context.Context, name string) (string, error) {
	return makeStep[string](ctx, name, journal.StepUUID, encoded(func(ctx context.Context) (string, error) {
		return uuidStep(placeOf(ctx).run.steps.key, name), nil
	}), nil)
}

// uuidLabel keeps these UUIDs from all keys.
const uuidLabel = "onceward uuid step v1"

func uuidStep(flow Key, name string) string {
	h := sha256.New()
	for _, part := range []string{uuidLabel, string(flow), name} {
		writeString(h, part)
	}
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // RFC 9562 section 5.4
	return id.String()
}

// Parallel returns a context for the named steps, which may run at once, such as in the
// goroutines of an errgroup: their order is not part of the flow, and their keys follow
// from their names. All of them are named beforehand, so that one that was renamed or
// removed is noticed before another is made in its stead (ErrFlowChanged, by each of
// them). Call it once for each group of steps, in sequence with the steps before and
// after it.
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
		if s.Position == r.position && s.Kind != journal.StepUndone && !slices.Contains(steps, name) {
			st := &step{run: r, name: name}
			_ = st.changedTo(name, errors.New("it is recorded, and Parallel is not given it any more"))
		}
	}
	return context.WithValue(ctx, placeKey, &place{run: r, section: r.position, steps: steps})
}

// StepOption changes a Step that returns a T.
type StepOption[T any] func(*stepOptions[T])

type stepOptions[T any] struct {
	undo func(context.Context, T) error
}

// WithUndo gives a step what undoes it, should the flow be given up: undo gets what the
// step returned. It is a step itself: made once, with keys of its own, and again where
// it fails. Its own writes, unlike those of a LocalStep, are not one commit with its
// record: a crash between the two has it run again.
func WithUndo[T any](undo func(ctx context.Context, result T) error) StepOption[T] {
	return func(o *stepOptions[T]) { o.undo = undo }
}

// makeStep returns what is recorded of a step, or has do make it, which returns its
// result as JSON.
func makeStep[T any](ctx context.Context, name string, kind journal.StepKind, do func(context.Context, *step) ([]byte, error), options []StepOption[T]) (T, error) {
	var zero, result T
	if p, reason := placeOf(ctx), checkResult(reflect.TypeFor[T]()); p != nil && reason != "" {
		return zero, (&step{run: p.run, name: name}).misuse(reason, nil)
	}
	st, err := enterStep(ctx, name, kind)
	if err != nil {
		return zero, err
	}
	encoded := st.result
	if st.executes {
		if encoded, err = st.make(ctx, do); err != nil {
			return zero, err
		}
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
