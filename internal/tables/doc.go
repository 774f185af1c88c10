// Package tables reads what package providers states. A [Router] finds the contract of
// a request by its host and path, and [Route.For], where that takes its headers or body,
// the contract of what a [Message] says. [Key] puts the key on the wire and finds it
// there, and [Route.Classify] reads the answer.
//
// Nothing here does I/O, and all of it is safe for concurrent use.
package tables
