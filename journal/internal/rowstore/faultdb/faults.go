package faultdb

import (
	"slices"
	"time"

	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Fate is what becomes of a commit.
type Fate uint8

const (
	// Lands is the fate of every commit without another one.
	Lands Fate = iota
	// Misses rolls back with ErrMissed.
	Misses
	// IsLocked rolls back with ErrLocked.
	IsLocked
	// Fails rolls back with an error that no row is to blame for.
	Fails
	// IsFenced rolls back with ErrFenced.
	IsFenced
	// LosesAnswer commits, and returns ErrUndecided.
	LosesAnswer
	// LosesCommit rolls back, and returns ErrUndecided.
	LosesCommit
)

// NextCommits sets the next commits' fates.
func (db *Database) NextCommits(fates ...Fate) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.faults.fates = fates
}

// Refuse has the database refuse to write some rows, as a trigger does. Nil refuses none.
func (db *Database) Refuse(refuse func(*rowstore.Row) bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.faults.refuse = refuse
}

// Unreachable has every new transaction fail, or ends that.
func (db *Database) Unreachable(is bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.faults.unreachable = is
}

// Tell has the database have a clock, which shows that time.
func (db *Database) Tell(now time.Time) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.faults.now = now
}

// Unsure has no one know whether a session lives.
func (db *Database) Unsure(session string) { db.setSession(session, unsure) }

// Strange has a session be one that came with a copy of the database, until the copy is adopted.
func (db *Database) Strange(session string) { db.setSession(session, strange) }

// Lose has a session be taken for dead, although its process has not noticed.
func (db *Database) Lose(session string) (notice func()) {
	db.setSession(session, dead)
	return func() { db.setSession(session, lost) }
}

func (db *Database) setSession(id string, to fault) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.faults.sessions[id] = to
}

func (db *Database) session(id string) fault {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.faults.sessions[id]
}

// adopted ends the sessions that came with a copy.
func (db *Database) adopted() {
	db.mu.Lock()
	defer db.mu.Unlock()
	for id, is := range db.faults.sessions {
		if is == strange {
			db.faults.sessions[id] = dead
		}
	}
}

// BlockCommits has commits wait until release is called.
func (db *Database) BlockCommits() (release func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	gate := make(chan struct{})
	db.faults.gate = gate
	return func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.faults.gate = nil
		close(gate)
	}
}

// StepCommits makes each commit wait for LetCommit. false ends the waiting, and the waiting commits land.
func (db *Database) StepCommits(on bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.faults.stepping = on
	for _, step := range db.faults.steps {
		step <- Lands
	}
	db.faults.steps = nil
}

// Commits returns how many commits wait for LetCommit.
func (db *Database) Commits() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.faults.steps)
}

// LetCommit lets the nth waiting commit go on to its fate.
func (db *Database) LetCommit(n int, fate Fate) {
	db.mu.Lock()
	defer db.mu.Unlock()
	steps := &db.faults.steps
	(*steps)[n] <- fate
	*steps = slices.Delete(*steps, n, n+1)
}

// Waiting returns how many transactions wait for others now.
func (db *Database) Waiting() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.faults.waiting
}

// Begun returns how many transactions were begun.
func (db *Database) Begun() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.faults.begun
}

// Resolved returns how many commits in doubt were resolved.
func (db *Database) Resolved() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.faults.resolved
}
