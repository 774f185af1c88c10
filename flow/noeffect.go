package flow

import "errors"

// NoEffect marks the error of a step whose operations had no effect although the provider answered with a 2xx, such
// as a payment that was declined by a 200. You don't need it for a decline that the provider's table knows (see
// providers.Decline), or for a status from 400 on. Without the mark, a step that fails after a success blocks the
// undo of its flow, because nothing says how to undo that success.
//
// The mark counts for every operation of its step: if one took effect after all, that effect stays. NoEffect returns
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
