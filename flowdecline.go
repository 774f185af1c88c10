package onceward

import (
	"errors"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// NoEffect marks the error of a step whose operations were answered by a refusal: a
// payment that was declined by a 200. Of one that its provider's table knows (see
// providers.Decline), and of any status from 400 on, a step need not say so. Without
// it a step that fails after a success keeps its flow from being undone, since nothing
// tells what undoes that.
//
// It speaks for every operation of its step: whoever says it of one that took effect has
// that effect left alone. It returns nil for nil.
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

// tookEffect tells whether a completed operation did, as far as its answer tells.
func (c *Client) tookEffect(op *journal.Operation) bool {
	a, u := op.Answer, parsed(op.Request.URL)
	switch {
	case a == nil:
		return true
	case a.Refused:
		return false
	case a.Cut, a.Omitted, u == nil:
		return true
	}
	route := c.router.Route(op.Request.Method, u)
	return !route.Listed || route.Provider.Name != op.Provider ||
		!route.Provider.Declined(providers.Answer{Status: a.Status, Header: a.Header, Body: a.Body})
}
