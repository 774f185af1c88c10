package flow

import "context"

// Trace is a set of hooks, in the manner of net/http/httptrace. Any may be nil. They are called synchronously, some
// of them concurrently, and must return soon. They receive no secret, header or body, except for the results of
// steps.
type Trace struct {
	// Parent returns the W3C traceparent of a flow's caller, which a new flow keeps (Flow.Trace). Empty means none.
	// Neither tracestate nor baggage is kept.
	Parent func(ctx context.Context) string

	// Started is called before a run of the flow's function, or of its undoing. It returns the context of that run,
	// which has to be derived from ctx. The hooks below that have a context get it. background says that Resume or
	// Run made the run.
	Started func(ctx context.Context, f Flow, background bool) context.Context

	// Ended is called once for each Started, with the flow after that run.
	Ended func(ctx context.Context, f Flow)

	// StepStarted is called before a step is made, but not for a step whose result is recorded. It returns the
	// context of the step, which has to be derived from ctx.
	StepStarted func(ctx context.Context, f Flow, step string) context.Context

	// StepEnded is called once for each StepStarted, with the error of the step.
	StepEnded func(ctx context.Context, f Flow, step string, err error)

	// Stepped is called when a step is done, or undone, and noted. The record has its result.
	Stepped func(Flow, StepRecord)

	// Left is called after a run of a flow, which is now finished, waiting, set aside or given up.
	Left func(Flow)
}
