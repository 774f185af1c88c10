package receipt

import (
	"github.com/onceward/onceward/internal/machine"
)

// state is one world state, comparable.
type state struct {
	Rec     uint16 // the committed receipt
	Rows    uint8  // of the key's present life, committed
	Answer  uint8  // that was recorded first in this life; 0: none
	Request uint8  // whose life it is, from its first commit on
	Started bool   // there was a commit
	Age     int8   // in days, of the life; two means that it is over
	Ahead   uint8  // one more than the process whose clock has leapt ahead
	Behind  uint8  // … or stands behind
	Runs    [2]run
	Txs     [3]tx // the processes', and one that outlives its process or its connection
	Callers [2]caller
	Seen    [2]seen
}

// run is a request that a process is serving.
type run struct {
	Phase   phase
	Owner   uint8 // one more than the caller; 0: the caller has hung up
	Request uint8
	Answer  uint8
	Status  uint16
	Rec     uint16 // of a transaction that the database has ended
}

type phase uint8

// A run's phases.
const (
	idle       phase = iota
	called           // the handler runs, without a transaction
	reserved         // … with one
	written          // … and has written its row, or made its call
	escaped          // … and has committed the transaction itself
	broken           // … and the database has rolled it back
	committing       // the answer is in the transaction, and COMMIT is sent
	settling         // the commit has failed, or is in doubt
	giving           // the answer leaves
)

// orphan is the number of the transaction that outlives the process.
const orphan = 2

// tx is a transaction.
type tx struct {
	State   txState
	Rec     uint16 // the receipt that it commits
	Row     bool   // and a row
	Life    bool   // the receipt begins a new life of the key
	Request uint8
	Answer  uint8
}

type txState uint8

const (
	none txState = iota
	open
	underway // COMMIT is sent
)

// caller is a caller that asks until an answer comes, and further.
type caller struct {
	Waits uint8 // one more than the process that serves it
	Heard heard // last in this life
}

type heard uint8

// A service's final answers.
const (
	nothing heard = iota
	anAnswer
	misuse
	gone
	unknown
)

// seen is what an operator has seen of a reserved receipt, and is about to record.
type seen struct {
	Claim int64 // 0: nothing
	Row   bool
	Moved bool // the receipt's row has been removed since
}

// facts are a step's facts, for the invariants that speak of steps.
type facts struct {
	faulty   bool // it need not happen
	early    bool // the handler is called, or an answer recorded, in a life that has one
	replaced bool // another answer was recorded in this life
	removed  bool // the answer or the receipt was removed before its time
	heard    heard
	by       int // the caller
	answer   uint8
	differs  bool // misuse: the caller's request is another one than that of the life, or of the run
	denied   bool // the caller was told that nothing is kept, and its transaction may land
	resolved bool // by an operator
}

// step is what happens, for the history.
type step struct {
	what   what
	of     int8 // a process, or a caller
	at     int8 // a caller's process
	status uint16
	says   machine.Decision
}

type what uint8

const (
	asks what = iota
	hangsUp
	reserves
	waits
	writes
	commits
	isRolledBack
	fails
	finishes
	refuses
	lands
	fallsThrough
	inDoubt
	settles
	gives
	loses
	dies
	diesAfterCommit
	orphanLands
	orphanEnds
	operatorLooks
	operatorActs
	reaps
	dayPasses
	leaps
	fallsBehind
	isSetRight
)
