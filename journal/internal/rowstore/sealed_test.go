package rowstore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/seal"
)

// rotating runs a test with two processes whose key was rotated in one step: the first has k1 alone, and the second seals
// with k2.
func rotating(t *testing.T, test func(t *testing.T, db *faultdb.Database, first, second *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := faultdb.New()
		first, second := newSealer(t, db, rowstoretest.Ring(t, "k1")), newSealer(t, db, rowstoretest.Ring(t, "k2", "k1"))
		defer first.j.Close()
		defer second.j.Close()
		test(t, db, first, second)
	})
}

// requireSealed checks that nothing was decided, and that the error names the key.
func requireSealed(t *testing.T, err error, key string) {
	t.Helper()
	require.ErrorIs(t, err, journal.ErrSealed)
	require.ErrorContains(t, err, `"`+key+`"`)
}

// A process that lacks an operation's key decides nothing about it. The other process goes on as if no one had asked.
func TestNoDecisionWithoutTheKey(t *testing.T) {
	rotating(t, func(t *testing.T, db *faultdb.Database, first, second *process) {
		second.decide(second.park(second.executed("due"), 0), machine.Recorded)
		second.decide(second.complete(second.executed("completed")), machine.Recorded)
		unknown := second.of(machine.EventMarkUnknown, second.executed("unknown"))
		unknown.Open = true
		lost := second.decide(unknown, machine.Recorded)
		flow := machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: ref("flow"), At: second.now, Session: second.s.ID(), InputDigest: "d", Input: []byte(`"in"`),
			Function: journal.FlowFunction{Name: "f"}}
		begun, err := second.j.ApplyFlow(t.Context(), flow)
		require.NoError(t, err)
		_, err = second.j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Handle: begun.Flow.Handle, At: second.now, Claim: 1})
		require.NoError(t, err)
		received := machine.ReceiptEvent{Kind: machine.ReceiptRecord, ReceiptKey: journal.ReceiptKey{Key: "r"}, Place: "rides", Fingerprint: "v1:r", At: second.now,
			Keep: time.Hour, Answer: &journal.Answer{Status: 200, Body: []byte("ride")}, Same: func(*journal.Receipt) (bool, error) { return true, nil }}
		inTx(t, second, func(ctx context.Context, tx journal.Tx) error {
			_, err := second.j.ReceiveTx(ctx, tx, received)
			return err
		})
		before := db.Copy()

		another := first.begin("completed")
		another.Intent.Fingerprint = "v1:another"
		look := first.of(machine.EventLook, lost)
		look.Due = first.now.Add(time.Minute)
		evidence := first.of(machine.EventEvidence, lost)
		evidence.Evidence, evidence.Object = &journal.Evidence{Finding: journal.FindingTookEffect, Basis: journal.BasisKey, Source: journal.SourceLook, At: first.now}, "payment p1"
		enqueue := another
		enqueue.Kind, enqueue.Session, enqueue.Asker = machine.EventEnqueue, "", 0
		ours := flow
		ours.Session = first.s.ID()
		s := first.j
		for name, method := range map[string]func(context.Context) error{
			"begin":            func(ctx context.Context) error { _, err := s.Apply(ctx, first.begin("completed")); return err },
			"begin of another": func(ctx context.Context) error { _, err := s.Apply(ctx, another); return err },
			"look":             func(ctx context.Context) error { _, err := s.Apply(ctx, look); return err },
			"evidence":         func(ctx context.Context) error { _, err := s.Apply(ctx, evidence); return err },
			"claim":            func(ctx context.Context) error { _, err := s.Claim(ctx, first.claims(), 10); return err },
			"get":              func(ctx context.Context) error { _, err := s.Get(ctx, ref("completed")); return err },
			"find by key": func(ctx context.Context) error {
				_, err := s.FindBy(ctx, "ledger", machine.ByKey, "key-of-unknown")
				return err
			},
			"event": func(ctx context.Context) error {
				_, _, err := s.RecordEvent(ctx, machine.Heard{ID: "e1"}, []machine.Event{evidence})
				return err
			},
			"flow":              func(ctx context.Context) error { _, err := s.ApplyFlow(ctx, ours); return err },
			"read of a flow":    func(ctx context.Context) error { _, err := s.GetFlow(ctx, ref("flow")); return err },
			"receipt":           func(ctx context.Context) error { _, err := s.LookReceipt(ctx, received); return err },
			"read of a receipt": func(ctx context.Context) error { _, err := s.GetReceipt(ctx, received.ReceiptKey); return err },
			"enqueue":           inOwnTx(first, func(ctx context.Context, tx journal.Tx) error { _, err := s.EnqueueTx(ctx, tx, enqueue); return err }),
			"receive":           inOwnTx(first, func(ctx context.Context, tx journal.Tx) error { _, err := s.ReceiveTx(ctx, tx, received); return err }),
			"claim of flows": func(ctx context.Context) error {
				_, err := s.ClaimFlows(ctx, machine.FlowEvent{Kind: machine.FlowEventClaim, At: first.now, Session: first.s.ID(), Functions: []journal.FlowFunction{{Name: "f"}}}, 10)
				return err
			},
			"due look-ups": func(ctx context.Context) error {
				due := machine.Event{Kind: machine.EventLook, At: first.now, Due: first.now.Add(time.Hour)}
				_, err := s.Looks(ctx, due, 10)
				return err
			},
		} {
			err := method(t.Context())
			require.ErrorIs(t, err, journal.ErrSealed, name)
			require.ErrorContains(t, err, `"k2"`, name)
		}
		require.Equal(t, before.Head().Number, db.Copy().Head().Number, "nothing was recorded")
		for op, err := range first.j.List(t.Context(), journal.Filter{}) {
			require.NoError(t, err)
			assert.Equal(t, "k2", op.SealedBy, op.ID)
			assert.NotEmpty(t, op.Key, op.ID)
			assert.Empty(t, op.Request.URL, op.ID)
		}

		second.decide(second.begin("completed"), machine.Replay)
		another.Session = second.s.ID()
		second.decide(another, machine.Misuse)
		assert.Len(t, second.claim(10), 1)
	})
}

func (p *process) claims() machine.Event {
	p.asker++
	return machine.Event{Kind: machine.EventClaim, At: p.now, Session: p.s.ID(), Asker: p.asker}
}

func inTx(t *testing.T, p *process, f func(context.Context, journal.Tx) error) {
	t.Helper()
	tx, err := p.j.BeginTx(t.Context())
	require.NoError(t, err)
	require.NoError(t, f(t.Context(), tx))
	require.NoError(t, tx.Commit(t.Context()))
}

func inOwnTx(p *process, f func(context.Context, journal.Tx) error) func(context.Context) error {
	return func(ctx context.Context) error {
		tx, err := p.j.BeginTx(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		return f(ctx, tx)
	}
}

// A claim passes over operations whose key is missing, and takes the others. The process with the key claims them next.
func TestAClaimPassesOverWhatItCannotOpen(t *testing.T) {
	rotating(t, func(t *testing.T, _ *faultdb.Database, first, second *process) {
		second.decide(second.park(second.executed("sealed"), 0), machine.Recorded)
		first.decide(first.park(first.executed("own"), 0), machine.Recorded)
		claimed := first.claim(10)
		require.Len(t, claimed, 1)
		assert.Equal(t, "own", claimed[0].Operation.ID)
		assert.Equal(t, []byte("own"), claimed[0].Operation.Request.Body)
		claimed = second.claim(10)
		require.Len(t, claimed, 1)
		assert.Equal(t, []byte("sealed"), claimed[0].Operation.Request.Body)
	})
}

// Operators go on without the key. The sealed fields stay for a process with the key.
func TestResolveAndReapWithoutTheKey(t *testing.T) {
	rotating(t, func(t *testing.T, _ *faultdb.Database, first, second *process) {
		pending := second.decide(second.park(second.executed("pending"), time.Hour), machine.Recorded)
		resolve := first.of(machine.EventResolve, pending)
		resolve.Session, resolve.By, resolve.Cause, resolve.Resolution, resolve.Delivered = "", "ann", "checked", journal.NotExecuted, true
		resolved := first.decide(resolve, machine.Recorded)
		assert.Equal(t, "k2", resolved.SealedBy)
		is := second.get("pending")
		assert.Equal(t, journal.StateCancelled, is.State)
		assert.Equal(t, "v1:pending", is.Fingerprint, "it was written back")
		assert.Equal(t, []byte("pending"), is.Request.Body)
		second.executed("pending") // again: its name and request are known

		done := second.complete(second.executed("done"))
		done.Delivered = true
		second.decide(done, machine.Recorded)
		time.Sleep(time.Hour)
		first.now = time.Now()
		reaped, err := first.j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: first.now, Keep: time.Minute}, 10)
		require.NoError(t, err)
		assert.Zero(t, reaped, "it is kept for its retention")
		time.Sleep(48 * time.Hour)
		first.now, second.now = time.Now(), time.Now()
		require.NoError(t, first.j.ResetClock(t.Context(), first.now))
		reaped, err = first.j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: first.now, Keep: time.Minute}, 10)
		require.NoError(t, err)
		assert.Equal(t, 1, reaped)
		second.decide(second.begin("done"), machine.Gone)
		assert.Empty(t, second.get("done").Fingerprint, "nothing is left of the request")
		for _, p := range []*process{first, second} {
			found, err := p.j.Verify(t.Context())
			require.NoError(t, err)
			assert.Empty(t, found)
		}
	})
}

// An answer is recorded although another process has sealed the operation's fields with a key that this one lacks.
func TestALateAnswerIsRecordedWithoutTheKey(t *testing.T) {
	rotating(t, func(t *testing.T, _ *faultdb.Database, first, second *process) {
		for id, end := range map[string]func(journal.Operation) machine.Event{
			"completed": first.complete,
			"parked": func(op journal.Operation) machine.Event {
				ev := first.park(op, time.Hour)
				ev.LastAnswer = &journal.Answer{Status: 503, Body: []byte("later")}
				return ev
			},
		} {
			op := first.executed(id)
			evidence := second.of(machine.EventEvidence, op)
			evidence.Session = ""
			evidence.Evidence = &journal.Evidence{Finding: journal.FindingTookEffect, Basis: journal.BasisKey, Source: journal.SourceEvent, At: second.now, Digest: "d"}
			evidence.Object, evidence.Answer = "payment "+id, &journal.Answer{Status: 200, Body: []byte("found")}
			second.decide(evidence, machine.Recorded) // and deferred to the end of the claim
			first.decide(end(op), machine.Recorded)
			is := second.get(id)
			assert.Equal(t, "v1:"+id, is.Fingerprint)
			assert.Equal(t, "d", is.Evidence[0].Digest)
			assert.Nil(t, is.Evidence[0].Answer)
			assert.NotEqual(t, journal.StateInFlight, is.State)
		}
		assert.Equal(t, []byte("paid completed"), second.get("completed").Answer.Body)
	})
}

// A release that forgets the ring sends nothing from a sealed journal, not even if it is running when the journal is sealed
// for the first time. Answers to its requests are recorded.
func TestAProcessWithoutARing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := faultdb.New()
		clear := newProcess(t, db)
		defer clear.j.Close()
		op := clear.executed("sent before")
		sealing := newSealer(t, db, rowstoretest.Ring(t, "k1").ReadClear())
		defer sealing.j.Close()

		_, err := clear.j.Apply(t.Context(), clear.begin("new"))
		requireSealed(t, err, "k1")
		_, err = clear.j.Claim(t.Context(), clear.claims(), 1)
		requireSealed(t, err, "k1")
		_, err = clear.j.Join(t.Context())
		requireSealed(t, err, "k1")
		enqueue := clear.begin("enqueued")
		enqueue.Kind, enqueue.Session, enqueue.Asker = machine.EventEnqueue, "", 0
		requireSealed(t, inOwnTx(clear, func(ctx context.Context, tx journal.Tx) error {
			_, err := clear.j.EnqueueTx(ctx, tx, enqueue)
			return err
		})(t.Context()), "k1")
		clear.decide(clear.complete(op), machine.Recorded)
		assert.Equal(t, []byte("paid sent before"), sealing.get("sent before").Answer.Body)

		for _, lacks := range []*seal.Ring{nil, rowstoretest.Ring(t, "k2")} {
			_, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Seal: lacks})
			requireSealed(t, err, "k1")
		}
		existing, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Existing: true})
		require.NoError(t, err)
		defer existing.Close()
		resolve := sealing.of(machine.EventResolve, sealing.decide(sealing.park(sealing.executed("held"), time.Hour), machine.Recorded))
		resolve.Session, resolve.By, resolve.Cause, resolve.Resolution = "", "ann", "paid", journal.Executed
		resolve.Answer = &journal.Answer{Status: 200, Body: []byte("paid")}
		_, err = existing.Apply(t.Context(), resolve)
		requireSealed(t, err, "k1")
		resolve.Answer = nil
		before, err := existing.SealStatus(t.Context())
		require.NoError(t, err)
		result, err := existing.Apply(t.Context(), resolve)
		require.NoError(t, err)
		assert.Equal(t, machine.Recorded, result.Decision)
		after, err := existing.SealStatus(t.Context())
		require.NoError(t, err)
		assert.Equal(t, before, after, "that there was an answer is no payload")
		sealing.decide(sealing.begin("held"), machine.Replay)
	})
}

// A program that looks at another one's journal never seals it first.
func TestAnExistingJournalIsNotSealedFirst(t *testing.T) {
	db := faultdb.New()
	_, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Seal: rowstoretest.Ring(t, "k1"), Existing: true})
	require.ErrorContains(t, err, "k1")
	assert.Empty(t, db.Head().Sealed)
}

// Keys join the mark before their first box, and the mark keeps them.
func TestTheMarkNamesEachSealingKey(t *testing.T) {
	db := faultdb.New()
	for _, step := range []struct {
		ids  []string
		want string
	}{{[]string{"k1"}, "k1"}, {[]string{"k1", "k2"}, "k1"}, {[]string{"k2", "k1"}, "k1 k2"}, {[]string{"k2"}, "k1 k2"}, {[]string{"k1"}, "k1 k2"}} {
		j, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Seal: rowstoretest.Ring(t, step.ids...)})
		require.NoError(t, err)
		status, err := j.SealStatus(t.Context())
		require.NoError(t, err)
		require.NoError(t, j.Close())
		assert.Equal(t, step.want, strings.Join(status.Keys, " "))
	}
}

// A ring with another secret under the ID of the journal's key is refused at once, and not row by row as damage. So is the
// ring of another deployment that calls its keys the same.
func TestAnotherSecretUnderTheID(t *testing.T) {
	db := faultdb.New()
	j, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Seal: rowstoretest.Ring(t, "k1", "k2")})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	before := db.Head()
	key := func(id, secret string) seal.Key {
		return seal.Key{ID: id, Secret: bytes.Repeat([]byte(secret), seal.SecretSize)[:seal.SecretSize]}
	}
	for name, keys := range map[string][]seal.Key{
		"seals":          {key("k1", "other")},
		"opens":          {key("k2", "k2"), key("k1", "other")},
		"swapped":        {key("k2", "k1"), key("k1", "k2")},
		"of another one": {key("k3", "k1"), key("k1", "k3")},
	} {
		other, err := seal.NewRing(keys...)
		require.NoError(t, err)
		for _, opts := range []rowstore.Options{{Seal: other}, {Seal: other.ReadClear()}, {Seal: other, Existing: true}} {
			_, err = rowstore.Open(t.Context(), db.Open(), opts)
			require.ErrorIs(t, err, journal.ErrSealed, name)
			require.NotErrorIs(t, err, format.ErrDamaged, name)
			assert.ErrorContains(t, err, `the key "k1" in Options.Seal is not the key of that name`, name)
		}
		_, err = rowstore.OpenToRead(t.Context(), db.Open(), other, errors.New("reads"))
		require.ErrorIs(t, err, journal.ErrSealed, name)
	}
	assert.Equal(t, before, db.Head())
}

// A person who can write to the table removes the mark. No error advises a ring that reads clear payloads.
func TestARemovedMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := faultdb.New()
		p := newSealer(t, db, rowstoretest.Ring(t, "k1"))
		p.decide(p.park(p.executed("sealed"), 0), machine.Recorded)
		require.NoError(t, p.j.Close())
		setMark(t, db, "")
		for _, ids := range [][]string{{"k1"}, {"k2", "k1"}} {
			_, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Seal: rowstoretest.Ring(t, ids...)})
			require.ErrorIs(t, err, format.ErrDamaged)
			assert.ErrorContains(t, err, "don't use Ring.ReadClear")
		}
		forgets, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{})
		require.NoError(t, err, "nothing tells it")
		s, err := forgets.Join(t.Context())
		require.NoError(t, err)
		_, err = forgets.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: p.now, Session: s.ID(), Asker: 1}, 10)
		requireSealed(t, err, "k1")
		_, err = forgets.Get(t.Context(), ref("sealed"))
		requireSealed(t, err, "k1")
		require.NoError(t, forgets.Close())
	})
}

// A forged mark stops processes, and no more.
func TestAForgedMark(t *testing.T) {
	db := faultdb.New()
	j, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Seal: rowstoretest.Ring(t, "k1")})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	for _, mark := range []string{"k1", "k1:", "k1:AAAA", "k1:\n", "k9", ":", " : ", "x\x1b[2J"} {
		setMark(t, db, mark)
		_, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Seal: rowstoretest.Ring(t, "k1")})
		require.Error(t, err, "%q", mark)
		assert.True(t, errors.Is(err, journal.ErrSealed) || errors.Is(err, format.ErrDamaged), "%q: %v", mark, err)
		assert.NotContains(t, err.Error(), "\x1b", "%q", mark)
	}
}

func setMark(t *testing.T, db *faultdb.Database, mark string) {
	t.Helper()
	tx, head, _, err := db.Open().Begin(t.Context(), rowstore.Keys{})
	require.NoError(t, err)
	head.Sealed = mark
	require.NoError(t, tx.Commit(t.Context(), head, nil))
}

// An operation in clear, in a journal whose ring reads no clear payloads, is damaged: no one sends it.
func TestClearOperationsOfASealedJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := faultdb.New()
		clear := newProcess(t, db)
		clear.decide(clear.park(clear.executed("clear"), 0), machine.Recorded)
		require.NoError(t, clear.j.Close())
		_, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Seal: rowstoretest.Ring(t, "k1")})
		require.ErrorContains(t, err, "ReadClear", "it would seal the journal first, and read nothing that is there")
		require.Empty(t, db.Head().Sealed)
		require.NoError(t, newSealer(t, db, rowstoretest.Ring(t, "k1").ReadClear()).j.Close())
		strict := newSealer(t, db, rowstoretest.Ring(t, "k1"))
		_, err = strict.j.Claim(t.Context(), strict.claims(), 10)
		require.ErrorIs(t, err, format.ErrDamaged)
		assert.ErrorContains(t, err, "ReadClear")
		require.NoError(t, strict.j.Close())
		reads := newSealer(t, db, rowstoretest.Ring(t, "k1").ReadClear())
		claimed := reads.claim(10)
		require.Len(t, claimed, 1)
		reads.decide(reads.complete(claimed[0].Operation), machine.Recorded)
		assert.Equal(t, []byte("paid clear"), reads.get("clear").Answer.Body)
		require.NoError(t, reads.j.Close())
	})
}

// An operation that is asked for by its second name is sealed for its first.
func TestARequestByASecondName(t *testing.T) {
	rotating(t, func(t *testing.T, _ *faultdb.Database, first, _ *process) {
		begin := first.begin("named")
		begin.Intent.Alias = journal.Ref{Parent: "carried", ID: "k"}
		begin.Intent.Naming = journal.Named
		cancel := first.of(machine.EventCancel, first.decide(begin, machine.Execute))
		cancel.Unsent = true
		first.decide(cancel, machine.Recorded)
		again := begin
		again.Ref = begin.Intent.Alias
		first.asker++
		again.Asker = first.asker
		op := first.decide(again, machine.Execute)
		require.Equal(t, "named", op.ID)
		first.decide(first.complete(op), machine.Recorded)
		is := first.get("named")
		assert.Equal(t, []byte("named"), is.Request.Body)
		assert.Equal(t, []byte("paid named"), is.Answer.Body)
	})
}

// A person who can write to the table, checksums included, can't have another request sent.
func TestForgedRowsAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, forge := range map[string]func(victim, other, clear *rowstore.Row){
			"another operation's request": func(victim, other, _ *rowstore.Row) { victim.Request = other.Request },
			"another operation's body": func(victim, other, _ *rowstore.Row) {
				victim.Request = &rowstore.Part{Head: victim.Request.Head, Body: other.Request.Body}
			},
			"another operation's body, with its checksum": func(victim, other, _ *rowstore.Row) {
				head := bytes.Clone(victim.Request.Head)
				copy(head[2:6], other.Request.Head[2:6])
				victim.Request = &rowstore.Part{Head: summed(head[:len(head)-format.SumSize]), Body: other.Request.Body}
			},
			"a request in clear": func(victim, _, clear *rowstore.Row) { victim.Request = clear.Request },
			"no request":         func(victim, _, _ *rowstore.Row) { victim.Request = nil },
			"a record in clear":  func(victim, _, clear *rowstore.Row) { victim.Record = bytes.Clone(clear.Record) },
		} {
			db, unsealed := faultdb.New(), faultdb.New()
			p, clear := newSealer(t, db, rowstoretest.Ring(t, "k1")), newProcess(t, unsealed)
			victim := p.decide(p.park(p.executed("victim"), 0), machine.Recorded)
			other := p.decide(p.park(p.executed("others"), time.Hour), machine.Recorded)
			clear.decide(clear.park(clear.executed("victim"), 0), machine.Recorded)

			rows := make(map[int64]*rowstore.Row)
			tx, _, found, err := db.Open().Begin(t.Context(), rowstore.Keys{Handles: []int64{victim.Handle, other.Handle}, Whole: true, Lock: rowstore.TryLock})
			require.NoError(t, err)
			for _, row := range found.Rows {
				rows[row.Handle] = row
			}
			theirs, _, found, err := unsealed.Open().Begin(t.Context(), rowstore.Keys{Handles: []int64{1}, Whole: true})
			require.NoError(t, err)
			theirs.Rollback()
			require.Len(t, found.Rows, 1)
			row := *rows[victim.Handle]
			forge(&row, rows[other.Handle], found.Rows[0])
			row.Record = bytes.Clone(row.Record[:len(row.Record)-format.SumSize])
			sum := uint32(0)
			if row.Request != nil {
				sum = format.SumIn(row.Request.Head)
			}
			binary.LittleEndian.PutUint32(row.Record[len(row.Record)-2*format.SumSize:], sum)
			row.Record = summed(row.Record)
			require.NoError(t, tx.Put(t.Context(), []*rowstore.Change{{Row: &row, Request: true}}))
			head, err := tx.Head(t.Context())
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context(), head, nil))

			claimed, err := p.j.Claim(t.Context(), p.claims(), 10)
			assert.Empty(t, claimed, name)
			assert.ErrorIs(t, err, format.ErrDamaged, name)
			_, err = p.j.Apply(t.Context(), p.begin("victim"))
			assert.ErrorIs(t, err, format.ErrDamaged, name)
			require.NoError(t, p.j.Close())
			require.NoError(t, clear.j.Close())
		}
	})
}

func summed(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, format.Sum(b)) }
