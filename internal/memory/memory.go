// Package memory has what a provider may remember of a key, as both the tables of
// providers and the resend rule of the journal say it. Package providers has what each
// value means.
package memory

import "github.com/onceward/onceward/internal/words"

// Memory says which results a provider answers a repeated key from. A greater one promises
// more. The numbers are those in the journal.
type Memory uint8

// The memories that package providers has under these names.
const (
	Nothing Memory = iota
	Successes
	SuccessesLostAnswers
	SuccessesCleanFailures
	Everything
)

var names = [...]string{
	Nothing:                "nothing",
	Successes:              "successes",
	SuccessesLostAnswers:   "successes, lost answers",
	SuccessesCleanFailures: "successes, clean failures",
	Everything:             "everything",
}

// String returns the memory in words, "nothing" for Nothing.
func (m Memory) String() string { return words.Of("memory", names[:], m) }

// Valid reports whether m is one of the constants.
func (m Memory) Valid() bool { return int(m) < len(names) }
