package sqlite

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// Kill drops a session of a journal, as the end of its process would.
func Kill(s machine.Session) { rowstore.Kill(s) }

// Dial opens a connection with one pragma and closes it.
func Dial(path, pragmaName, value, want string) error {
	c, err := conn.Dial(path, []conn.Pragma{{pragmaName, value, want}})
	if err != nil {
		return err
	}
	return c.Close()
}

// Mark makes the sidecar name the latest commit, as happens every few seconds.
func Mark(j *Journal) error { return j.driver.Checkpointer().Mark() }

// Checkpointed returns once the checkpointer has finished the work that it was woken for.
func Checkpointed(j *Journal) { j.driver.Checkpointer().Idle() }

// Checkpoint wakes the checkpointer.
func Checkpoint(j *Journal) { j.driver.Checkpointer().Wake() }

// MarkAlways makes journals that are opened from now on mark as often as possible, until restore is called.
func MarkAlways() (restore func()) { return MarkAfter(0) }

// MarkAfter makes them mark commits of that age.
func MarkAfter(age time.Duration) (restore func()) {
	before := checkpoint.SidecarAfter
	checkpoint.SidecarAfter = age
	return func() { checkpoint.SidecarAfter = before }
}

// MarkNever leaves marking to Mark.
func MarkNever() (restore func()) { return MarkAfter(time.Hour) }

// Flush commits the events that wait for another commit.
func Flush(j *Journal) error { return j.store.Flush(context.Background()) }

// Queued is the number of requests that the writer has not taken yet.
func Queued(j *Journal) int { return j.store.Queued() }

// Hold keeps the writer in a batch, which commits something once release is called.
func Hold(j *Journal) (release func()) { return j.store.Hold() }

// HoldTurn makes the writer wait before it begins a batch, until release is called.
func HoldTurn(j *Journal) (release func()) {
	tx, err := j.BeginSQL(context.Background())
	if err != nil {
		panic(err)
	}
	return func() { _ = tx.Rollback() }
}

// FailCommit makes one commit fail.
func FailCommit(j *Journal) { j.store.FailCommit() }

// Turns is the number of transactions that wait to begin.
func Turns(j *Journal) int { return j.driver.Waiting() }
