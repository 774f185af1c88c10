// Package wire has requests and answers as bytes.
//
//   - Composer makes an attempt's request from the recorded one.
//   - FreezeHeader and RecordedHeader keep credentials and traces out of records.
//   - ReadUpTo and Legible read and decode bodies up to a limit.
//   - AttemptContext ends an attempt, and proves that no server has processed the attempt.
//
// The package knows the places on the wire that a provider's table names. It knows no state of an operation, no resend
// rule and no client. The package decides nothing: the callers say whether a request is sent.
package wire
