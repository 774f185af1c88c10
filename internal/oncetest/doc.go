// Package oncetest has the words that the tests of the client and of flows share: a provider
// that is a [Line] in memory and that a test scripts and watches, virtual time ([Virtual],
// [Pass]), a [Process] with a journal that it can be cut off from, a provider in a box as it is
// usually set up ([InBox], [Serving], [Calling]), and processes that the kernel kills
// ([StartChild]). A [Teller] pays at a [Bank], for tests of reconciliation. A helper ends the
// test if it can't do its work.
//
// The tests of the client and of package flow give them short names in words_test.go.
package oncetest
