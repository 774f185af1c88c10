package machine

import (
	"context"
	"iter"

	"github.com/onceward/onceward/journal"
)

// Flows is a Journal that also keeps flows: functions with several steps, resumed by name. Flows is optional. The
// methods are safe for concurrent use, use the Journal's sessions, and return ErrRestored, like the Journal's methods.
//
// This interface does not grow.
type Flows interface {
	// ApplyFlow runs NextFlow on the flow that ev names, and records ev.Steps if the event took place. It returns once the
	// commit is durable. So a step's record is durable before a later operation is sent.
	//
	// The result of an Execute or a Replay holds the whole flow. Errors are those of Journal.Apply. FlowEventBegin needs a
	// live session.
	ApplyFlow(ctx context.Context, ev FlowEvent) (FlowResult, error)

	// ClaimFlows applies ev, of kind FlowEventClaim and without Ref, in one commit to at most limit claimable flows with a
	// function in ev.Functions. Claimable at ev.At are flows with a dead session, and waiting flows that are due. Flows
	// that are due longest come before others, and the results are in creation order.
	//
	// If fewer than limit are claimable, claimable flows with another function may follow, unchanged, with the decision
	// Ignored.
	ClaimFlows(ctx context.Context, ev FlowEvent, limit int) ([]FlowResult, error)

	// GetFlow returns the whole flow, with steps, or ErrNotFound.
	GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error)

	// ListFlows yields flows with their steps but without input and results, in creation order. It passes over
	// damaged flows, and yields the error of one at the end. The sequence ends after an error.
	ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error]

	// ReapFlows applies ev, of kind FlowEventReap and without Ref, to at most limit flows. It returns the number of shrunk
	// flows. It passes over damaged flows, and returns the error too if fewer than limit were shrunk.
	ReapFlows(ctx context.Context, ev FlowEvent, limit int) (int, error)
}

// LocalFlows is a Flows whose database may also be the application's. One commit can then hold a step's writes and
// record, or an application's writes and the record of a flow that goes on from there.
type LocalFlows interface {
	Flows

	// BeginTx starts a writing transaction on the journal's database. Other writers may have to wait for its end. Keep the
	// transaction short, and use the journal for nothing else meanwhile.
	BeginTx(ctx context.Context) (journal.Tx, error)

	// ApplyFlowTx applies ev, of kind FlowEventRecord or FlowEventEnqueue, within tx. Others see the event once tx
	// commits. After an *EventError, and after Misuse, tx can go on.
	ApplyFlowTx(ctx context.Context, tx journal.Tx, ev FlowEvent) (FlowResult, error)
}
