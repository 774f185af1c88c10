// Package seam has the private contract between the client, package flow and package server: Resume's and Run's work
// for flows, and the content of a context or an operation's name.
package seam

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Certain reports whether a journal's error proves that nothing was recorded.
func Certain(err error) bool {
	return errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrSessionLost) ||
		errors.Is(err, journal.ErrRestored) || errors.Is(err, journal.ErrSealed) || errors.Is(err, journal.ErrInvalidEvent)
}

// traceParent is a version 00 traceparent, or a later version's that begins alike. The rest is not kept, so the field
// holds only random numbers.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// TraceParent returns the given traceparent in the journal's form, or "" if the traceparent is malformed.
func TraceParent(said string) string {
	if !traceParent.MatchString(said) {
		return ""
	}
	return said
}

// PollEvery is the interval at which Run looks for operations that other processes have left.
const PollEvery = 5 * time.Second

type polling struct{}

// Seldom returns a context under which Run polls at that interval. Simulated lives use Seldom, since most lives have
// nothing to find.
func Seldom(ctx context.Context, every time.Duration) context.Context {
	return context.WithValue(ctx, polling{}, every)
}

// PollUnder returns PollEvery, or the interval that Seldom has set in ctx.
func PollUnder(ctx context.Context) time.Duration {
	if every, said := ctx.Value(polling{}).(time.Duration); said {
		return every
	}
	return PollEvery
}

// MaxName is the most that an operation may be called, in bytes.
const MaxName = 512

// Parent is a flow, or one of its steps, as what the operations under a context belong
// to.
type Parent struct {
	Journal machine.Store
	Scope   string
	Ref     string // Ref.Parent of the operations
	Flow    journal.FlowRef
	Key     string // theirs are derived from it
	Step    Step   // nil: a call is made outside of the steps

	Background bool // Resume or Run runs it: its calls wait their turn, as others of the background
}

// Step lets a step's calls be made. It may be used concurrently.
type Step interface {
	// ID is the name for the step's unnamed operation, and the prefix for the other operations' names.
	ID() string

	// Take says why a call can't be made in the step; if it can, Left follows.
	Take(named bool) error

	// Note has the operation recorded as one of the step's, before it is begun.
	Note(ctx context.Context, ref journal.Ref) error

	// Begin lets an operation be begun until Begun, which follows if Begin returns nil. Begin returns an error if the
	// step has ended or other hands may have the flow: the journal's ErrSessionLost, or an error that wraps ErrNotSent.
	Begin() error
	Begun()

	// Left records the call's result.
	Left(Left)
}

// Left is the result of a step's call.
type Left struct {
	Ref       journal.Ref
	Named     bool
	Operation journal.Operation // absent if the call does not know how it stands
	Err       error

	LacksCredential bool      // Err is for want of a credential
	Asked           time.Time // the provider accepts no request until then; zero: it did not ask for a pause
	AnswerAgain     time.Time // when to ask again for a missing answer; zero: no ask brings it
}

// Background is the work of Resume and Run for flows.
type Background interface {
	// Resume runs once what was cut off or is due.
	Resume(ctx context.Context, count Count) error

	// Run does so until ctx ends or the client is shut down.
	Run(ctx context.Context, count Count)

	// Wake says that a flow may be due sooner than was known.
	Wake()
}

// Outcome is the result of a flow in the background.
type Outcome uint8

// The outcomes. A flow is Claimed before it is any other but Unregistered.
const (
	Claimed Outcome = iota
	Finished
	Waiting
	SetAside
	GivenUp
	Unregistered // not claimed, since its function is not known
)

// Count counts a flow's outcome, and any problem that keeps the flow from the end.
type Count func(what Outcome, problem error)

// flowParent begins the Ref.Parent of a flow's operations. It holds a space, so it equals no key.
const flowParent = "flow"

// ParentOf returns the Ref.Parent of a flow's operations. It holds the flow's name or, if the flow has a parent
// itself, the flow's key, under which no stranger can put an operation.
func ParentOf(f *journal.Flow) string {
	if f.Parent == "" {
		return flowParent + " " + f.ID
	}
	return flowParent + ", key " + f.Key
}

// IsOfFlow reports whether a Ref.Parent is that of a flow's operations.
func IsOfFlow(parent string) bool {
	return strings.HasPrefix(parent, flowParent) && strings.Contains(parent, " ")
}

// IsUndo reports whether an operation undoes a step of a flow. Absence never frees one: the flow would
// undo it again, by itself.
func IsUndo(op *journal.Operation) bool {
	return IsOfFlow(op.Parent) && strings.HasPrefix(op.ID, "undo/")
}

// FlowOf returns the flow's name in a Ref.Parent, if there is one.
func FlowOf(parent string) (name string, ok bool) { return strings.CutPrefix(parent, flowParent+" ") }

// Inbound begins the Ref.Parent of operations that an inbound request with a key begins. The key follows, and with
// InboundOptions.KeysPerEndpoint " at " and the endpoint. A key holds no space.
const Inbound = "inbound "

// InboundKey returns the key of the inbound request with this Ref.Parent, or "".
func InboundKey(parent string) string {
	key, is := strings.CutPrefix(parent, Inbound)
	if !is {
		return ""
	}
	key, _, _ = strings.Cut(key, " at ")
	return key
}

// InboundKeyOf returns the key of the inbound request that has the operation as a step, directly or through a flow, or
// "".
func InboundKeyOf(op *journal.Operation) string {
	return cmp.Or(InboundKey(op.Parent), InboundKey(op.Flow.Parent))
}

// InTransaction marks the context of a local step, whose transaction is open.
func InTransaction(ctx context.Context) context.Context {
	return InTransactionWhile(ctx, func() bool { return true })
}

// InTransactionWhile marks the context of a function whose transaction is open at times.
func InTransactionWhile(ctx context.Context, open func() bool) context.Context {
	return context.WithValue(ctx, transactionKey{}, open)
}

// IsInTransaction reports whether a transaction is open under a context.
func IsInTransaction(ctx context.Context) bool {
	open, ok := ctx.Value(transactionKey{}).(func() bool)
	return ok && open()
}

type transactionKey struct{}

// WithEarlier returns the context of a request that package server serves under a key. The server may have forgotten an
// earlier request with the key. earlier receives an operation below the key, if the journal had the operation already,
// and reports whether it is of such an earlier request.
func WithEarlier(ctx context.Context, earlier func(*journal.Operation) bool) context.Context {
	return context.WithValue(ctx, earlierKey{}, earlier)
}

// Earlier returns the function that WithEarlier has put into a context, or nil.
func Earlier(ctx context.Context) func(*journal.Operation) bool {
	earlier, _ := ctx.Value(earlierKey{}).(func(*journal.Operation) bool)
	return earlier
}

type earlierKey struct{}
