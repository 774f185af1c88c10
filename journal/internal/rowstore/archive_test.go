package rowstore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/mapdb"
	"github.com/onceward/onceward/journal/internal/store"
)

// archive is a writer that may fail, and calls written after each write.
type archive struct {
	bytes.Buffer
	fails   error
	written func()
}

func (a *archive) Write(b []byte) (int, error) {
	if a.fails != nil {
		return 0, a.fails
	}
	n, err := a.Buffer.Write(b)
	if a.written != nil {
		a.written()
	}
	return n, err
}

// ids returns the names in the lines.
func (a *archive) ids(t *testing.T) (ids []string) {
	t.Helper()
	for line := range bytes.Lines(a.Bytes()) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue // after a write that may have been torn
		}
		var is struct {
			ID string `json:"id"`
		}
		require.NoError(t, json.Unmarshal(line, &is))
		ids = append(ids, is.ID)
	}
	return ids
}

// archived runs a test on a journal with an archive.
func archived(t *testing.T, test func(t *testing.T, db *mapdb.Database, p *process, a *archive)) {
	history(t, func(t *testing.T, db *mapdb.Database, p *process) {
		a := new(archive)
		j, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Archive: store.NewArchive(a, true)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		own := *p
		own.j = j
		own.s, err = j.Join(t.Context())
		require.NoError(t, err)
		test(t, db, &own, a)
	})
}

// old completes operations, and lets their time pass.
func (p *process) old(ids ...string) {
	for _, id := range ids {
		p.decide(p.of(journal.EventDeliver, p.complete1(id)), journal.Recorded)
	}
	p.passes(60 * 24 * time.Hour)
}

func (p *process) reap(limit int) (int, error) {
	return p.j.Reap(p.t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now()}, limit)
}

func TestReapArchivesEachOperationWithItsBodies(t *testing.T) {
	archived(t, func(t *testing.T, db *mapdb.Database, p *process, a *archive) {
		p.old("a", "b", "c")
		reaped, err := p.reap(2)
		require.NoError(t, err)
		assert.Equal(t, 2, reaped)
		assert.Equal(t, []string{"a", "b"}, a.ids(t))
		assert.True(t, p.get("a").Tombstone)
		assert.False(t, p.get("c").Tombstone)
		var line journal.Archived
		require.NoError(t, json.Unmarshal(bytes.SplitN(a.Bytes(), []byte("\n"), 2)[0], &line))
		assert.Equal(t, []byte("paid a"), line.Answer.Body)
		_, err = p.reap(10)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "c"}, a.ids(t))
	})
}

func TestAnArchiveThatFailsKeepsTheOperations(t *testing.T) {
	archived(t, func(t *testing.T, db *mapdb.Database, p *process, a *archive) {
		p.old("a")
		a.fails = errors.New("disk full")
		_, err := p.reap(10)
		require.ErrorIs(t, err, a.fails)
		assert.False(t, p.get("a").Tombstone)
		a.fails = nil
		db.NextCommits(mapdb.Lands, mapdb.Fails)
		_, err = p.reap(10)
		require.Error(t, err)
		assert.False(t, p.get("a").Tombstone)
		_, err = p.reap(10)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "a"}, a.ids(t), "at least once")
	})
}

func TestAnOperationThatAnotherProcessReapsMeanwhileIsReapedOnce(t *testing.T) {
	archived(t, func(t *testing.T, db *mapdb.Database, p *process, a *archive) {
		p.old("a", "b")
		other := newProcess(t, db)
		t.Cleanup(func() { _ = other.j.Close() })
		a.written = func() {
			a.written = nil
			reaped, err := other.reap(1)
			require.NoError(t, err)
			assert.Equal(t, 1, reaped)
		}
		reaped, err := p.reap(10)
		require.NoError(t, err)
		assert.Equal(t, 1, reaped)
		assert.True(t, p.get("a").Tombstone)
		assert.True(t, p.get("b").Tombstone)
	})
}

func TestAReapPassesOverADamagedOperationAndSaysSo(t *testing.T) {
	archived(t, func(t *testing.T, db *mapdb.Database, p *process, a *archive) {
		p.old("a", "b")
		db.Damage(p.get("a").Handle)
		reaped, err := p.reap(1)
		require.NoError(t, err)
		assert.Equal(t, 1, reaped)
		_, err = p.reap(1)
		require.ErrorIs(t, err, format.ErrDamaged)
		assert.Equal(t, []string{"b"}, a.ids(t))
	})
}

// A commit reaps about a megabyte, since a database may overwrite it.
func TestACommitReapsNoMoreThanAMegabyteOfSeveral(t *testing.T) {
	history(t, func(t *testing.T, db *mapdb.Database, p *process) {
		const many = 8
		random := rand.New(rand.NewPCG(1, 2))
		for i := range many {
			ev := p.complete(p.executed(string(rune('a' + i))))
			ev.Answer.Body = make([]byte, 400<<10)
			for k := range ev.Answer.Body {
				ev.Answer.Body[k] = byte(random.Uint32()) // which no compression makes shorter
			}
			p.decide(p.of(journal.EventDeliver, p.decide(ev, journal.Recorded)), journal.Recorded)
		}
		p.passes(60 * 24 * time.Hour)
		before := db.Begun()
		reaped, err := p.reap(many)
		require.NoError(t, err)
		assert.Equal(t, many, reaped)
		assert.Greater(t, db.Begun()-before, 2)
	})
}

func TestReceiptsAreArchivedBeforeTheyAreReaped(t *testing.T) {
	archived(t, func(t *testing.T, db *mapdb.Database, p *process, a *archive) {
		ev := journal.ReceiptEvent{
			Kind: journal.ReceiptRecord, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: "k"}, At: time.Now(), Place: "p", Fingerprint: "f", Keep: time.Hour,
			Same: func(*journal.Receipt) (bool, error) { return true, nil }, Answer: &journal.Answer{Status: 201, Body: []byte("made")},
		}
		tx, err := p.j.BeginTx(t.Context())
		require.NoError(t, err)
		_, err = p.j.ReceiveTx(t.Context(), tx, ev)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
		p.passes(2 * time.Hour)
		reap := journal.ReceiptEvent{Kind: journal.ReceiptReap, At: time.Now()}
		a.fails = errors.New("disk full")
		_, err = p.j.ReapReceipts(t.Context(), reap, 10)
		require.ErrorIs(t, err, a.fails)
		_, err = p.j.GetReceipt(t.Context(), ev.ReceiptKey)
		require.NoError(t, err)
		a.fails = nil
		reaped, err := p.j.ReapReceipts(t.Context(), reap, 10)
		require.NoError(t, err)
		assert.Equal(t, 1, reaped)
		assert.Contains(t, a.String(), `"p"`)
	})
}
