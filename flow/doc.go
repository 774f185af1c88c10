// Package flow runs functions of several steps that are resumed by name, so that each
// step is made once, whatever happens to the process: reserve, charge, send. A step
// whose result is recorded is not made again. The field calls that durable execution.
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
// Everything that has an effect, or may come out differently the next time, belongs in a
// [Step]. Calls in a step get their keys from the flow's and the step's names, so that a
// step which is made again repeats them under the same keys. [TimeStep] and [UUIDStep] are
// for time and randomness, [LocalStep] for the application's own tables in the journal's
// file, [Parallel] for steps that run at once, and [BestEffort] for a step that the rest can do
// without.
//
// # After a crash or an error
//
// What was cut off goes on by the client's Resume and Run, or when somebody asks for it
// again by its name. A step with an operation that has no outcome yet makes the flow wait.
// A flow that keeps failing is set aside, for [Runner.Retry] or [Runner.GiveUp].
//
// A function that was changed under a flow is [ErrChanged]: keep the old one registered
// under its version while its flows are under way.
//
// # Undo
//
// A function gives up by [GiveUp]. Its steps are then undone, the latest first, by what
// [WithUndo] gave them. The field calls that a saga with compensations.
package flow
