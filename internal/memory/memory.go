// Package memory has the possible kinds of a provider's memory for a key, as both the providers' tables and the
// journal's resend rule use the kinds. Package providers has what each value means.
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
