package flow

import (
	"errors"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
)

// NoEffect marks the error of a step whose operations had no effect although the provider answered with a 2xx, such as
// a payment declined by a 200. A decline in the provider's table (see providers.Decline), or a status from 400 on,
// needs no mark. Without the mark, a step that fails after a success blocks the flow's undo, because nothing says how
// to undo the success.
//
// The mark counts for every operation in the step: if one took effect after all, the effect stays. NoEffect returns
// nil for nil.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return &noEffect{err}
}

type noEffect struct{ err error }

func (e *noEffect) Error() string { return e.err.Error() }
func (e *noEffect) Unwrap() error { return e.err }

func saysNoEffect(err error) bool {
	_, ok := errors.AsType[*noEffect](err)
	return ok
}

// tookEffect reports whether a completed operation took effect, according to the answer.
func tookEffect(c *core.Core, op *journal.Operation) bool {
	a, u := op.Answer, core.Parsed(op.Request.URL)
	switch {
	case a == nil:
		return true
	case a.Refused:
		return false
	case a.Cut, a.Omitted, u == nil:
		return true
	}
	route := c.Router.Route(op.Request.Method, u)
	return !route.Listed || route.Provider.KeysUnder != op.Provider ||
		!tables.Declined(route.Provider, tables.Answer{Status: a.Status, Header: a.Header, Body: a.Body})
}
