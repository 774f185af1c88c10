// Package retry says when the next attempt is made: after the delays of a [backoff.Policy], or as long as the provider's
// answer asks, and within the [backoff.Budget] of everybody together.
package retry
