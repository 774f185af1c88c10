package faultdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/journaltest"
)

func open(t *testing.T, db *faultdb.Database) *rowstore.Store {
	t.Helper()
	s, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func harness(t *testing.T) journaltest.Harness {
	db := faultdb.New()
	first := open(t, db)
	return journaltest.Harness{
		Journal: first,
		Seed:    soak.Seed(t, 1),
		Open:    func(t *testing.T) machine.Store { return open(t, db) },
		Reopen:  func(t *testing.T) machine.Store { _ = first.Close(); return open(t, db) },
		Kill:    func(t *testing.T, s machine.Session) { rowstore.Kill(s) },
		Crash:   func(t *testing.T) machine.Store { return open(t, db.Copy()) },
		Restored: func(t *testing.T) machine.Store {
			old := db.Copy()
			require.NoError(t, open(t, db).KeepHook(t.Context(), true))
			_ = first.Close()
			db.Restore(old)
			return open(t, db)
		},
		Freeze: func(t *testing.T, s machine.Session) func() { return db.Lose(s.ID()) },
	}
}

func TestConformance(t *testing.T) {
	rowstoretest.Conformance(t, harness, map[string]string{"interruptions": "the maps have no connections or server"}, 196)
}

func TestHistories(t *testing.T) {
	rowstoretest.Histories(t, func(t *testing.T) rowstoretest.Database {
		db := faultdb.New()
		return rowstoretest.Database{
			Open:           func(t *testing.T) *rowstore.Store { return open(t, db) },
			Driver:         func(*testing.T) rowstore.Driver { return db.Open() },
			Damage:         func(_ *testing.T, handle int64) { db.Damage(handle) },
			DamageReceipt:  func(_ *testing.T, handle int64) { db.DamageReceipt(handle) },
			DamageBookmark: func(_ *testing.T, name string) { db.DamageBookmark(name) },
			Refuse: func(_ *testing.T, provider string, handle int64) {
				db.Refuse(func(r *rowstore.Row) bool { return r.Provider == provider || r.Handle == handle })
			},
			Hold:     func(_ *testing.T, handle int64) func() { return db.Hold([]int64{handle}, nil) },
			HoldName: func(_ *testing.T, name rowstore.Digest) func() { return db.Hold(nil, []rowstore.Digest{name}) },
		}
	})
}

func TestLongHistory(t *testing.T) {
	journaltest.LongHistory(t, harness(t), soak.Times(300, 1500))
}
