package otelonceward

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/flow"
)

// The attributes on flow spans.
const (
	keyFunction = attribute.Key("onceward.flow.function")
	keyVersion  = attribute.Key("onceward.flow.version")
	keyUndoing  = attribute.Key("onceward.flow.undoing")
	keyStep     = attribute.Key("onceward.flow.step")
)

const (
	flowKey contextKey = iota + 100
	stepKey
)

// FlowTrace returns the hooks for flow.Config.Trace. The hooks make a span for each run of a flow's function and a
// span below for each step, and put operations below their step. Runs by Resume and Run are separate traces, with a
// link to the trace of the flow's first caller. Span names hold the names of functions and steps, which the program
// sets. The flow's own name is on spans only with WithOperationID.
func (t *Telemetry) FlowTrace() *flow.Trace {
	return &flow.Trace{Parent: t.parent, Started: t.flowStarted, Ended: t.flowEnded, StepStarted: t.stepStarted, StepEnded: t.stepEnded}
}

func (t *Telemetry) flowStarted(ctx context.Context, f flow.Flow, background bool) context.Context {
	name := "onceward flow"
	if f.Function != "" {
		name += " " + f.Function
	}
	options := make([]trace.SpanStartOption, 0, 3)
	options = append(options, trace.WithAttributes(keyFunction.String(f.Function), keyVersion.Int(f.Version)))
	_, within := ctx.Value(flowKey).(trace.Span)
	if background && !within { // else it is undone, in a run of its own
		options = append(options, trace.WithNewRoot())
	}
	if f.Trace != "" && f.Trace != t.parent(ctx) && !within {
		if link, ok := linkTo(f.Trace); ok {
			options = append(options, trace.WithLinks(link))
		}
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	if span.IsRecording() {
		span.SetAttributes(keyUndoing.Bool(f.Undoing), keyBackground.Bool(background))
		if t.cfg.ids {
			span.SetAttributes(keyOperationID.String(f.ID))
		}
	}
	return context.WithValue(ctx, flowKey, span)
}

func (t *Telemetry) flowEnded(ctx context.Context, f flow.Flow) {
	span, ok := ctx.Value(flowKey).(trace.Span)
	if !ok {
		return
	}
	if span.IsRecording() {
		span.SetAttributes(keyFlowState.String(f.State.String()))
		if f.State == flow.StateSetAside {
			span.SetStatus(codes.Error, "set aside")
		}
	}
	span.End()
}

func (t *Telemetry) stepStarted(ctx context.Context, _ flow.Flow, step string) context.Context {
	ctx, span := t.tracer.Start(ctx, "onceward step "+step, trace.WithAttributes(keyStep.String(step)))
	return context.WithValue(ctx, stepKey, span)
}

func (t *Telemetry) stepEnded(ctx context.Context, _ flow.Flow, _ string, err error) {
	span, ok := ctx.Value(stepKey).(trace.Span)
	if !ok {
		return
	}
	if err != nil && span.IsRecording() {
		class := errorType(err)
		if failed := (*flow.Error)(nil); class == "_OTHER" && errors.As(err, &failed) {
			class = "flow"
		}
		span.SetAttributes(keyErrorType.String(class))
		span.SetStatus(codes.Error, class)
	}
	span.End()
}
