// Package middlewares holds tests of server/servertest against other projects' middlewares for idempotency keys. It is
// a module of its own, so that they are no dependencies of the library.
package middlewares
