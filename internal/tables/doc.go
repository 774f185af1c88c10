// Package tables reads the tables of package providers. A [Router] finds the contract of a request by its host and
// path. [Route.For] finds the contract of a [Message] if that takes its headers or body. [Key] puts the key on the
// wire and finds it there, and [Route.Classify] reads the answer.
//
// Nothing here does I/O, and all of it is safe for concurrent use.
package tables
