package flow

import "errors"

// NoEffect marks the error of a step whose operations had no effect although they were
// answered by a 2xx, such as a payment that was declined by a 200. It is not needed
// for a decline that the provider's table knows (see providers.Decline), nor for a status
// from 400 on. Without the mark, a step that fails after a success keeps its flow from
// being undone, since nothing tells what undoes that success.
//
// It speaks for every operation of its step: if one took effect after all, that effect is
// left alone. NoEffect returns nil for nil.
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
