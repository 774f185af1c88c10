// Package oncetest has the helpers that the client's and the flows' tests share. [Line] is a provider in memory that a
// test scripts and watches. [Virtual] and [Pass] are virtual time. [Process] has a journal that a test can cut off.
// [InBox], [Serving] and [Calling] set up a provider in a box as usual. [StartChild] starts processes that the kernel
// kills. A [Teller] pays at a [Bank], for tests of reconciliation. A helper ends the test if the helper's work fails.
//
// The tests of the client and of package flow give them short names in words_test.go.
package oncetest
