// Package faultdb is a database in maps that holds, refuses and damages rows, and aborts or loses commits, as a test asks.
package faultdb

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/mapdb"
)

// Database is a database whose drivers meet faults. Several may be open at once, as processes use a server.
type Database struct {
	maps *mapdb.Database
	key  format.HashKey

	mu     sync.Mutex
	faults faults
}

// faults is what a test has a database do.
type faults struct {
	fates       []Fate
	refuse      func(*rowstore.Row) bool
	sessions    map[string]fault
	unreachable bool
	now         time.Time
	gate        chan struct{} // commits wait until it is closed; nil: they don't
	stepping    bool
	steps       []chan Fate // commits that wait for LetCommit

	begun, resolved, waiting int
}

// fault is what is wrong with a session.
type fault uint8

const (
	unsure  fault = 1 + iota // no one knows whether its process lives
	strange                  // it came with a copy
	dead                     // it is taken for dead, and its process has not noticed
	lost                     // its process has noticed
)

// New returns an empty database.
func New() *Database { return of(mapdb.New()) }

func of(maps *mapdb.Database) *Database {
	db := &Database{maps: maps, faults: faults{sessions: make(map[string]fault)}}
	db.key = db.Head().Key
	return db
}

// Copy returns a database with all committed rows, as if all processes were killed now.
func (db *Database) Copy() *Database { return of(db.maps.Copy()) }

// Restore has the database be as the copy. A witness beside it tells the next transaction which commits are missing.
func (db *Database) Restore(from *Database) {
	made := db.Head().Number
	db.maps.Restore(from.maps)
	if has := db.Head().Number; has < made {
		db.edit(rowstore.Keys{}, func(_ rowstore.Tx, head *rowstore.Head, _ rowstore.Found) []*rowstore.Change {
			head.Restored = fmt.Sprintf("it has %d commits, and %d were made", has, made)
			return nil
		})
	}
}

// Key returns the key of the names' digests.
func (db *Database) Key() *format.HashKey { return &db.key }

// Head returns the head as it was committed.
func (db *Database) Head() (head rowstore.Head) {
	db.read(func(r rowstore.Reader) (err error) {
		head, err = r.Head(context.Background())
		return err
	})
	return head
}

// Record returns an operation's record as it was committed.
func (db *Database) Record(handle int64) (record []byte) {
	db.read(func(r rowstore.Reader) error {
		found, err := r.Find(context.Background(), rowstore.Keys{Handles: []int64{handle}})
		record = found.Rows[0].Record
		return err
	})
	return record
}

func (db *Database) read(f func(rowstore.Reader) error) {
	if err := db.maps.Open().Read(context.Background(), f); err != nil {
		panic(err) // maps can be read
	}
}

// edit commits changes that meet no fault.
func (db *Database) edit(keys rowstore.Keys, changes func(tx rowstore.Tx, head *rowstore.Head, found rowstore.Found) []*rowstore.Change) {
	keys.Lock = rowstore.WaitLock
	tx, head, found, err := db.maps.Open().Begin(context.Background(), keys)
	if err == nil {
		err = tx.Commit(context.Background(), head, changes(tx, &head, found))
	}
	if err != nil {
		panic(err) // the test has chosen rows that no transaction holds
	}
}

// Damage flips a bit in an operation's record.
func (db *Database) Damage(handle int64) {
	db.damage(handle, func(row *rowstore.Row) { row.Record = flipped(row.Record) })
}

// DamageRequest flips a bit in an operation's request.
func (db *Database) DamageRequest(handle int64) {
	db.damage(handle, func(row *rowstore.Row) {
		row.Request = &rowstore.Part{Head: flipped(row.Request.Head), Body: row.Request.Body}
	})
}

func (db *Database) damage(handle int64, damage func(*rowstore.Row)) {
	db.edit(rowstore.Keys{Handles: []int64{handle}, Whole: true}, func(_ rowstore.Tx, _ *rowstore.Head, found rowstore.Found) []*rowstore.Change {
		row := found.Rows[0]
		damage(row)
		return []*rowstore.Change{{Row: row, Request: true, Answer: true}}
	})
}

// flipped returns a copy with another bit in its middle.
func flipped(b []byte) []byte {
	b = slices.Clone(b)
	b[len(b)/2] ^= 1
	return b
}

// DamageReceipt flips a bit in a receipt.
func (db *Database) DamageReceipt(handle int64) {
	db.edit(rowstore.Keys{}, func(tx rowstore.Tx, _ *rowstore.Head, _ rowstore.Found) []*rowstore.Change {
		ctx := context.Background()
		page, _ := tx.Receipts(ctx, rowstore.ReceiptScan{After: rowstore.Position{Handle: handle - 1}, Limit: 1})
		found, _ := tx.Receipt(ctx, page[0].Key)
		found.Receipt.Facts = flipped(found.Receipt.Facts)
		_ = tx.UpdateReceipt(ctx, found.Receipt)
		return nil
	})
}

// DamageBookmark flips a bit in a bookmark.
func (db *Database) DamageBookmark(name string) {
	db.edit(rowstore.Keys{}, func(tx rowstore.Tx, _ *rowstore.Head, _ rowstore.Found) []*rowstore.Change {
		b, _ := tx.Bookmark(context.Background(), name)
		_ = tx.PutBookmark(context.Background(), &rowstore.Bookmark{Name: name, Version: b.Version + 1, Record: b.Record})
		return nil
	})
}

// Misname has a name lead to another operation, or to a row that does not exist.
func (db *Database) Misname(name rowstore.Digest, handle int64) {
	keys := rowstore.Keys{Names: []rowstore.Digest{name}, Handles: []int64{handle}}
	db.edit(keys, func(tx rowstore.Tx, _ *rowstore.Head, found rowstore.Found) (changes []*rowstore.Change) {
		gone := &rowstore.Row{Handle: handle}
		add := &rowstore.Change{Row: gone, AddNames: []rowstore.Digest{name}, Insert: true}
		for _, row := range found.Rows {
			if row.Handle == found.Names[name] {
				changes = append(changes, &rowstore.Change{Row: row, RemoveNames: []rowstore.Digest{name}})
			}
			if row.Handle == handle {
				add.Row, add.Insert = row, false
			}
		}
		if changes = append(changes, add); !add.Insert {
			return changes
		}
		_ = tx.Put(context.Background(), changes)
		_, _ = tx.Find(context.Background(), rowstore.Keys{Handles: []int64{handle}, Lock: rowstore.WaitLock})
		return []*rowstore.Change{{Row: gone, Remove: true}}
	})
}

// Hold has a transaction of the application's hold rows and names until release is called. It passes over the rows held
// by another transaction.
func (db *Database) Hold(handles []int64, names []rowstore.Digest) (release func()) {
	ctx := context.Background()
	tx, _, _, err := db.maps.Open().Begin(ctx, rowstore.Keys{Handles: handles, Lock: rowstore.TryLock})
	if err != nil {
		panic(err) // no row is waited for
	}
	for _, name := range names {
		handle, _ := tx.Handle(ctx)
		_ = tx.Put(ctx, []*rowstore.Change{{Row: &rowstore.Row{Handle: handle}, Insert: true, AddNames: []rowstore.Digest{name}}})
	}
	return tx.Rollback
}

// Held returns how many rows the transactions of all processes hold now.
func (db *Database) Held() (rows int) {
	var handles []int64
	db.read(func(r rowstore.Reader) error {
		all, err := r.Scan(context.Background(), rowstore.Scan{Index: rowstore.ByHandle, Limit: 1000})
		for _, at := range all {
			handles = append(handles, at.Handle)
		}
		return err
	})
	tx, _, found, err := db.maps.Open().Begin(context.Background(), rowstore.Keys{Handles: handles, Lock: rowstore.TryLock})
	if err != nil {
		panic(err) // no row is waited for
	}
	tx.Rollback()
	for _, row := range found.Rows {
		if row.Locked {
			rows++
		}
	}
	return rows
}
