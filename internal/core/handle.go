package core

import "github.com/onceward/onceward/journal"

// Handle is embedded in an onceward.Client. By it, packages flow and server reach what users do not. O is
// onceward.Operation.
type Handle[O any] struct {
	core   *Core
	public func(*journal.Operation) O
}

// NewHandle returns a client's handle. public returns an operation record's public form.
func NewHandle[O any](c *Core, public func(*journal.Operation) O) Handle[O] {
	return Handle[O]{core: c, public: public}
}

func (h *Handle[O]) reached() *Core                      { return h.core }
func (h *Handle[O]) operationOf(op *journal.Operation) O { return h.public(op) }

// Of returns an *onceward.Client's core.
func Of(client interface{ reached() *Core }) *Core { return client.reached() }

// OperationOf returns an operation record's public form, as the client's users see it.
func OperationOf[O any](client interface{ operationOf(*journal.Operation) O }, op *journal.Operation) O {
	return client.operationOf(op)
}
