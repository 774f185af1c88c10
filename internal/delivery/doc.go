// Package delivery sees to it that the outcome of each operation reaches someone: its caller, its flow, or the hooks
// OnSettled, OnSettledTx and OnUnknown.
//
// It knows which of them gets which outcome, keeps the queue of those that a hook has still to take, and opens a flow again
// if one of its operations took effect after all. It sends nothing and decides nothing about an operation. It knows no
// request, no caller and no type of package onceward: that package hands it the hooks as functions.
package delivery
