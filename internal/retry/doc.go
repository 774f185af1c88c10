// Package retry says when the next attempt is made. It waits for the delays of a [backoff.Policy], or as long as the
// provider's answer asks. It keeps within the [backoff.Budget] that all operations share.
package retry
