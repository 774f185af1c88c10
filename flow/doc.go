// Package flow runs functions of several steps, such as reserve, charge and send, and resumes a run by name. Each step is
// made once, even if the process dies: a step with a recorded result is not made again. The field calls this durable
// execution.
//
// # Write a flow
//
// A [Runner] runs the flows for an onceward.Client and the client's journal, without a server:
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
// Make every effect, and everything with a different result the next time, in a [Step]. Calls in a step get their keys
// from the flow's and the step's names, so a repeated step makes the calls again under the same keys.
// Special steps are:
//   - [TimeStep] and [UUIDStep] for time and randomness;
//   - [LocalStep] for the application's own tables in the journal's database;
//   - [Parallel] for steps which run at once;
//   - [BestEffort] for a step which the flow can do without.
//
// # After a crash or an error
//
// The client's Resume and Run go on with interrupted flows, and so does the next caller of the same name. A step with
// an operation without an outcome makes the flow wait. After several failures in a row, the flow is set aside, for
// [Runner.Retry] or [Runner.GiveUp].
//
// A function which was changed under a flow is [ErrChanged]: keep the old function registered under the old version while
// its flows are under way.
//
// # Undo
//
// A function gives up by [GiveUp]. The steps are then undone, the latest first, by the functions given to [WithUndo].
// The field calls this a saga with compensations.
package flow
