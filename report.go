package onceward

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/background"
)

// Report is what one pass of Resume, or the passes of Run so far, did.
type Report struct {
	Claimed   int // operations that were taken over or whose time had come
	Completed int // of these, those that have their answer now
	Parked    int // … that are pending, due later
	Unknown   int // … that may have taken effect, and resending can't tell
	Cancelled int // … that provably had no effect
	Settled   int // outcomes that OnSettled took
	Unsettled int // outcomes that OnSettled failed on; it gets them again
	Reaped    int // operations past their keep that were shrunk or removed

	// PassedOver are operations that are due and were not claimed by Resume: their
	// provider is not in Config.Providers, or was not when they were begun, their credential
	// is withheld and can't be added here, or is another by now, they have no name and
	// NamedOnly is set, the last attempts at their provider have failed, or it may still be
	// working on what another process has sent. They stay pending.
	PassedOver int

	// Problems are what stands in the way of operations that have no answer, the
	// first hundred of them: errors.Is finds ErrCredentialMissing,
	// ErrOutcomeUnknown, ErrPending and ErrKeyReused.
	Problems []*Error

	Flows FlowReport

	Elapsed time.Duration
}

func (r Report) String() string {
	return fmt.Sprintf("claimed %d: completed %d, parked %d, unknown %d, cancelled %d; settled %d, unsettled %d; reaped %d%v; in %v",
		r.Claimed, r.Completed, r.Parked, r.Unknown, r.Cancelled, r.Settled, r.Unsettled, r.Reaped, r.Flows, r.Elapsed.Round(time.Millisecond))
}

// FlowReport is what one pass of Resume, or the passes of Run so far, did with flows.
type FlowReport struct {
	Claimed      int // flows that were taken over or whose time had come
	Finished     int // of these, those that have come to their end
	Waiting      int // … that wait for an operation, or for another try
	SetAside     int // … that failed too often
	GivenUp      int // … that are undone
	Unregistered int // flows that wait for a function which is not registered; not claimed

	// Problems are why flows have not finished, for the first hundred of them. If this process runs flows, each is a
	// *flow.Error.
	Problems []error
}

// String returns nothing where there was nothing to do.
func (r FlowReport) String() string {
	if r.Claimed == 0 && r.Unregistered == 0 {
		return ""
	}
	return fmt.Sprintf("; flows claimed %d: finished %d, waiting %d, set aside %d, given up %d; of an unknown function %d",
		r.Claimed, r.Finished, r.Waiting, r.SetAside, r.GivenUp, r.Unregistered)
}

// reportOf makes the Report of the counts.
func reportOf(n *background.Counts) Report {
	r := Report{
		Claimed: n.Claimed, Completed: n.Completed, Parked: n.Parked, Unknown: n.Unknown, Cancelled: n.Cancelled,
		Settled: n.Settled, Unsettled: n.Unsettled, Reaped: n.Reaped, PassedOver: n.PassedOver,
		Flows: FlowReport(n.Flows), Elapsed: n.Elapsed,
	}
	for _, f := range n.Problems {
		r.Problems = append(r.Problems, errorOf(f))
	}
	return r
}
