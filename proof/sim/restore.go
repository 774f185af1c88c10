package sim

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// disaster is the loss of a journal's file, which a backup replaces.
type disaster struct {
	path    string
	begins  chan struct{} // every process is to end
	over    chan struct{} // and may start again
	waiting sync.WaitGroup

	mu      sync.Mutex
	backed  bool            // the backup was made: later records are lost
	lost    bool            // the backup is in place
	refuses bool            // and was not adopted yet
	begun   map[string]bool // the ledger's names of the operations that were begun meanwhile
	gap     map[string]bool // … and do not come back by their keys
}

// restores replaces the journal by its backup in the middle of the life. The operator adopts the backup at once, or
// only after the processes have met its errors for a while.
func (l *life) restores() error {
	d := l.disaster
	if d == nil {
		return nil
	}
	random := l.dice("disaster")
	from := random.within(l.length / 2)
	time.Sleep(from)
	j := l.current().(*sqlite.Journal)
	backup := d.path + ".backup"
	if err := j.Backup(context.Background(), backup); err != nil {
		return err
	}
	d.mu.Lock()
	d.backed = true
	d.mu.Unlock()
	l.tell("world", "", "a backup is made")
	time.Sleep(random.within(l.length/2 - from))
	close(d.begins)
	d.waiting.Wait()
	if err := j.Close(); err != nil {
		return err
	}
	for _, beside := range []string{"-wal", "-shm"} {
		if err := os.Remove(d.path + beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(backup, d.path); err != nil {
		return err
	}
	restored, err := sqlite.Open(d.path, sqlite.Options{})
	if err != nil {
		return err
	}
	l.tell("world", "", "the backup is restored")
	l.mu.Lock()
	l.journal = restored
	l.mu.Unlock()
	late := random.of(2)
	d.mu.Lock()
	d.lost, d.refuses = true, late
	d.mu.Unlock()
	if late {
		close(d.over)
		time.Sleep(random.within(l.length / 8))
		d.mu.Lock()
		d.refuses = false
		d.mu.Unlock()
	}
	err = restored.Adopt(context.Background())
	l.tell("world", "", "the backup is adopted: %v", err)
	if !late {
		close(d.over)
	}
	return err
}

// current returns the journal as it is now.
func (l *life) current() machine.Store {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal
}

// hasBegun notes an operation, or another generation of one, that was begun after the backup was made. An operation
// whose key follows from a name or a flow comes back by the key, so the operation does not count as lost.
func (l *life) hasBegun(ev machine.Event, res machine.Result) {
	op := &res.Operation
	switch {
	case ev.Kind == machine.EventResolve:
		l.isUnknownToBackup(op, false)
	case ev.Kind == machine.EventBegin && res.Decision == machine.Execute:
		l.isUnknownToBackup(op, op.Generation == 0)
	}
}

// isUnknownToBackup notes an operation that the backup lacks. It comes back by the key if the key is the operation's
// first and follows from its name.
func (l *life) isUnknownToBackup(op *journal.Operation, first bool) {
	d := l.disaster
	if d == nil {
		return
	}
	name := l.ledgerName(op.Ref)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.backed || d.lost {
		return
	}
	d.begun[name], d.begun[strings.TrimPrefix(op.ID, "key-of-")] = true, true
	if derived := op.Parent != "" || l.has(secrets) && op.Naming == journal.Named; derived && first && !l.has(modes) && !l.has(quotedKeys) && !l.has(accounts) { // each mode and account has keys of its own, and each form is another key
		for _, c := range l.world.contracts {
			if c.name == op.Provider && !c.keyless && c.guard && c.memory == providers.Everything && c.retention > l.length+time.Hour {
				return
			}
		}
	}
	d.gap[name] = true
	d.gap[op.Key] = true
}

// flowHasBegun does the same for a flow. The keys of its steps follow from the flow's.
func (l *life) flowHasBegun(ev machine.FlowEvent, res machine.FlowResult) {
	if l.disaster == nil || l.has(secrets) || ev.Kind != machine.FlowEventBegin || res.Decision != machine.Execute || res.Flow.Claim != 1 {
		return
	}
	l.disaster.mu.Lock()
	defer l.disaster.mu.Unlock()
	if l.disaster.backed && !l.disaster.lost {
		l.disaster.gap[res.Flow.ID] = true
	}
}

// inGap reports whether a disaster explains a second effect of an errand, or the loss of an answer or a promise. The
// name is the ledger's.
func (l *life) inGap(name string, keys ...string) bool {
	if l.disaster == nil {
		return false
	}
	l.disaster.mu.Lock()
	defer l.disaster.mu.Unlock()
	for _, key := range keys {
		if key != "" && l.disaster.gap[key] {
			return true
		}
	}
	return l.disaster.gap[name]
}

// hasForgotten reports whether the restored journal lacks an operation that was begun for an errand. A later caller
// learns only of the new operation.
func (l *life) hasForgotten(name string) bool {
	if l.disaster == nil {
		return false
	}
	l.disaster.mu.Lock()
	defer l.disaster.mu.Unlock()
	return l.disaster.lost && l.disaster.begun[name]
}

func (l *life) wasRestored() bool {
	if l.disaster == nil {
		return false
	}
	l.disaster.mu.Lock()
	defer l.disaster.mu.Unlock()
	return l.disaster.lost
}

// wait has a process wait until a disaster that has begun is over.
func (d *disaster) wait(member *bool) {
	if d == nil || *member {
		return
	}
	select {
	case <-d.begins:
		*member = true
		d.waiting.Done()
		<-d.over
	default:
	}
}

// lostThen returns a channel that closes when the disaster begins, or nil for a process that started later.
func (l *life) lostThen(waited bool) <-chan struct{} {
	if l.disaster == nil || waited {
		return nil
	}
	return l.disaster.begins
}

// isFrozen reports whether the journal is a copy that was not adopted.
func (l *life) isFrozen() bool {
	if l.disaster == nil {
		return false
	}
	l.disaster.mu.Lock()
	defer l.disaster.mu.Unlock()
	return l.disaster.refuses
}
