// Package background does the work for a client that no caller waits for. It claims due operations, lets the engine
// send, starts look-ups of unknown operations, makes due deliveries, runs flows, and reaps.
//
// The package knows the work's order and pace, and which operations to leave to other processes. It does not
// know how a request is sent, how a look-up works, or which hook gets an outcome. It knows no type of package
// onceward, which makes a Report from [Counts].
package background
