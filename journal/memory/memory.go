// Package memory keeps a journal in memory, for the unit tests of programs that use one.
//
// IT IS NOT DURABLE. Everything is gone when the process ends: an operation in flight is then never finished, and its
// name executes again. Use package sqlite for real effects.
//
// Otherwise it keeps every promise of a journal, and passes package journaltest. It is safe for concurrent use by the
// goroutines of one process. Records are copied on their way in and out, so no caller can change the journal's copies.
package memory

import (
	"context"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/mapdb"
)

// Journal is a journal in memory. New makes one. Its methods are safe for concurrent use.
//
// Apply records EventDeliver at once, too. The Tx of BeginTx has no driver: its Driver returns nil.
type Journal struct {
	engine
	db *mapdb.Database
}

// engine is what a Journal does.
type engine interface {
	machine.Store
	machine.ClockResetter
	machine.HookKeeper
	journal.StatsReader
	journal.Bookmarks
	machine.LocalFlows
	machine.Outbox
	machine.Reconciler
}

// New returns an empty journal.
func New() *Journal {
	db := mapdb.New()
	s, err := rowstore.Open(context.Background(), db.Open(), rowstore.Options{DeliverAtOnce: true})
	if err != nil {
		panic(err) // new maps can be opened
	}
	return &Journal{s, db}
}

// Kill ends a session like the death of its process: another claim takes over its operations. Killing an unknown
// session does nothing.
func (j *Journal) Kill(sessionID string) { j.db.Kill(sessionID) }
