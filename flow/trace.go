package flow

import "context"

// Trace is a set of hooks, as in net/http/httptrace. Any hook may be nil. Hooks are called synchronously,
// some concurrently, and must return soon. Hooks receive no secret, header or body, except for steps' results.
type Trace struct {
	// Parent returns the caller's W3C traceparent, which a new flow keeps (Flow.Trace). Empty means none.
	// Neither tracestate nor baggage is kept.
	Parent func(ctx context.Context) string

	// Started is called before the flow's function, or the undoing, runs. Started returns the run's context, which has
	// to be derived from ctx. The hooks below with a context get the run's context. background says that Resume or Run
	// made the run.
	Started func(ctx context.Context, f Flow, background bool) context.Context

	// Ended is called once for each Started, with the flow after that run.
	Ended func(ctx context.Context, f Flow)

	// StepStarted is called before a step is made, but not for a step with a recorded result. StepStarted returns the
	// step's context, which has to be derived from ctx.
	StepStarted func(ctx context.Context, f Flow, step string) context.Context

	// StepEnded is called once for each StepStarted, with the step's error.
	StepEnded func(ctx context.Context, f Flow, step string, err error)

	// Stepped is called when a step is done, or undone, and recorded. The record has the step's result.
	Stepped func(Flow, StepRecord)

	// Left is called after a run. The flow is now finished, waiting, set aside or given up.
	Left func(Flow)
}
