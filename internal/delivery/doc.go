// Package delivery delivers each operation's outcome: to the caller, the flow, or the hooks Outcomes.Handle,
// Outcomes.HandleTx and OnUnknown.
//
// The package knows which receiver gets which outcome, and queues the outcomes that a hook has still to take. The
// package reopens a flow if one of the flow's operations took effect after all. It sends nothing and decides nothing
// about an operation. The package knows no request, no caller and no type of package onceward, which passes the hooks
// as functions.
package delivery
