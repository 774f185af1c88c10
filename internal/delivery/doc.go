// Package delivery delivers the outcome of each operation: to its caller, its flow, or the hooks Outcomes.Handle,
// Outcomes.HandleTx and OnUnknown.
//
// It knows which of them gets which outcome, and keeps the queue of outcomes that a hook has still to take. It opens
// a flow again if one of its operations took effect after all. It sends nothing and decides nothing about an
// operation. It knows no request, no caller and no type of package onceward: that package hands it the hooks as
// functions.
package delivery
