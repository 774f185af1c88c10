// Package tables reads the tables of package providers. A [Router] finds a request's contract by host and path.
// [Route.For] finds the contract of a [Message] if the contract depends on headers or the body. [Key] puts the key on
// the wire, and finds a key there. [Route.Classify] reads the answer.
//
// Nothing here does I/O, and everything is safe for concurrent use.
package tables
