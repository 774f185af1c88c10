// Package flow runs functions of several steps, such as reserve, charge and send, and resumes them by name. Each step is
// made once, even if the process dies: a step whose result is recorded is not made again. The field calls that durable
// execution.
//
// # Write a flow
//
// A [Runner] runs the flows of an onceward.Client and its journal, which needs no server:
//
//	client, err := onceward.New(onceward.Config{…})
//	hc := client.HTTPClient()
//	pay := flow.Define("pay", 1, func(ctx context.Context, in Order) (Receipt, error) {
//		c, err := flow.Step(ctx, "charge", func(ctx context.Context) (Charge, error) { return charge(ctx, hc, in) })
//		…
//	})
//	flows, err := flow.New(client, flow.Config{Definitions: []flow.Definition{pay}})
//	receipt, err := pay.Run(ctx, flows, "order-991", in)
//
// Put everything into a [Step] that has an effect, or that may come out differently the next time. Calls in a step
// get their keys from the flow's and the step's names, so a step that is made again repeats them under the same keys.
// Special steps are:
//   - [TimeStep] and [UUIDStep] for time and randomness;
//   - [LocalStep] for the application's own tables in the journal's database;
//   - [Parallel] for steps that run at once;
//   - [BestEffort] for a step that the flow can do without.
//
// # After a crash or an error
//
// The client's Resume and Run go on with interrupted flows, and so does the next caller of the same name. A step with
// an operation that has no outcome yet makes the flow wait. A flow that keeps failing is set aside, for
// [Runner.Retry] or [Runner.GiveUp].
//
// A function that was changed under a flow is [ErrChanged]: keep the old one registered under its version while its
// flows are under way.
//
// # Undo
//
// A function gives up by [GiveUp]. Its steps are then undone, the latest first, by the functions given to [WithUndo].
// The field calls that a saga with compensations.
package flow
