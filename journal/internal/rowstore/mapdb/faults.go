package mapdb

import (
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/journal/internal/rowstore"
)

// faults is what a test has a database do.
type faults struct {
	fates       []Fate
	refuse      func(*rowstore.Row) bool
	unsure      map[string]bool
	lost        map[string]bool // sessions that their process knows to be lost
	strange     map[string]bool // sessions that came with a copy
	unreachable bool
	now         time.Time
	gate        chan struct{} // commits wait until it is closed; nil: they don't
	stepping    bool
	steps       []chan Fate // commits that wait for LetCommit

	begun, resolved, waiting int
}

// Fate is what becomes of a commit.
type Fate uint8

const (
	// Lands is the fate of every commit without another one.
	Lands Fate = iota
	// Misses rolls back with ErrMissed.
	Misses
	// Fails rolls back with an error that no row is to blame for.
	Fails
	// IsFenced rolls back with ErrFenced.
	IsFenced
	// LosesAnswer commits, and returns ErrUndecided.
	LosesAnswer
	// LosesCommit rolls back, and returns ErrUndecided.
	LosesCommit
)

var errBroken = errors.New("mapdb: the connection broke before the commit")

func (f *faults) next() (fate Fate) {
	if len(f.fates) > 0 {
		fate, f.fates = f.fates[0], f.fates[1:]
	}
	return fate
}

// NextCommits sets the fates of the next commits.
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
func (db *Database) Unsure(session string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.faults.unsure = map[string]bool{session: true}
}

// Strange has a session be one that came with a copy of the database.
func (db *Database) Strange(session string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.faults.strange = map[string]bool{session: true}
}

// Lose has a session be taken for dead, although its process has not noticed.
func (db *Database) Lose(session string) (notice func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.alive, session)
	return func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.faults.lost = map[string]bool{session: true}
	}
}

// Kill ends a session as the death of its process does. The session knows.
func (db *Database) Kill(session string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.alive, session)
	if db.faults.lost == nil {
		db.faults.lost = make(map[string]bool)
	}
	db.faults.lost[session] = true
}

// Damage flips a bit in the record of an operation.
func (db *Database) Damage(handle int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	row := *db.rows[handle]
	row.Record = append([]byte(nil), row.Record...)
	row.Record[len(row.Record)/2] ^= 1
	db.rows[handle] = &row
}

// DamageRequest flips a bit in the request of an operation.
func (db *Database) DamageRequest(handle int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	row := *db.rows[handle]
	part := *row.Request
	part.Head = append([]byte(nil), part.Head...)
	part.Head[len(part.Head)/2] ^= 1
	row.Request = &part
	db.rows[handle] = &row
}

// Record returns the record of an operation as it was committed.
func (db *Database) Record(handle int64) []byte {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.rows[handle].Record
}

// DamageReceipt flips a bit in a receipt.
func (db *Database) DamageReceipt(handle int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for key, r := range db.receipts {
		if r.Handle == handle {
			is := *r
			is.Facts = append([]byte(nil), r.Facts...)
			is.Facts[len(is.Facts)/2] ^= 1
			db.receipts[key] = &is
		}
	}
}

// Misname has a name lead to another operation, or to none if handle is 0, without a sound.
func (db *Database) Misname(name rowstore.Digest, handle int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.names[name] = handle
}

// Hold has a transaction of the application's hold rows and names until release is called. It passes over those that
// another transaction holds.
func (db *Database) Hold(handles []int64, names []rowstore.Digest) (release func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	t := &tx{view: view{db: db}}
	holds := func(what any) {
		if db.held[what] == nil {
			db.held[what], t.holds = t, append(t.holds, what)
		}
	}
	for _, handle := range handles {
		holds(handle)
	}
	for _, name := range names {
		holds(name)
	}
	return t.Rollback
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

// StepCommits has each commit wait for LetCommit. false ends that, and has those that wait land.
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

// LetCommit has the nth of the commits that wait go on to its fate.
func (db *Database) LetCommit(n int, fate Fate) {
	db.mu.Lock()
	defer db.mu.Unlock()
	steps := &db.faults.steps
	(*steps)[n] <- fate
	*steps = slices.Delete(*steps, n, n+1)
}

// Held returns how many rows the transactions of all processes hold now.
func (db *Database) Held() (rows int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for what := range db.held {
		if _, is := what.(int64); is {
			rows++
		}
	}
	return rows
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
