// Package retry says when the next attempt is made: after the delays of a [backoff.Policy], or the delay in the
// provider's answer. All operations share the retries of one [backoff.Budget].
package retry
