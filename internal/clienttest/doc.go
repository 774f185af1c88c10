// Package clienttest tests the client through its public API: requests, work in the background, reconciliation,
// inbound requests, and the promises under faults and kills. Package oncetest has the words that the tests share.
package clienttest
