package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

func anOperation() journal.Operation {
	at := time.UnixMilli(1772366400123).UTC()
	return journal.Operation{
		Ref: journal.Ref{ID: "invoice-991/charge"}, Key: "k", KeyCarried: true, Credential: "salted digest", Endpoint: "POST /charges", Fingerprint: "v1:f", Cause: "503",
		Generation: 2, Claim: 7, Attempts: 3, SecondEffects: 1,
		Terms:      journal.Terms{Dedup: journal.DedupEverything, Retention: 24 * time.Hour, Guard: true, Handling: time.Nanosecond},
		MayHaveRun: true, FirstSentAt: at, Found: journal.Found{MayHaveRun: true, FirstSentAt: at.Add(-time.Hour)},
		LastEndedAt: at.Add(time.Hour), WindowClosed: true, BusySince: at, CreatedAt: time.UnixMilli(0).UTC(),
		UpdatedAt: time.UnixMilli(-1).UTC(), DueAt: at, Told: true, ByHand: true,
		SentSince: at.Add(-time.Minute), Mode: "test", Form: "header Idempotency-Key", BodyWithheld: true, Failed: true, DueOwn: true, Asker: 9,
		Alias:    journal.Ref{Scope: "tenant", Parent: "carried", ID: "k"},
		Resolved: &journal.Resolved{Resolution: journal.Hold, By: "jane", Why: "looked", At: at, Generation: 1, Claim: 3},
	}
}

func TestFactsComeBackAsTheyWere(t *testing.T) {
	sameKey := anOperation()
	sameKey.Key = sameKey.ID
	for name, op := range map[string]journal.Operation{"all": anOperation(), "none": {}, "same key": sameKey} {
		want := row{op: op, answerSum: 7}
		got := row{op: journal.Operation{Ref: op.Ref}}
		require.NoError(t, decodeFacts(encodeFacts(want), &got), name)
		assert.Equal(t, want, got, name)
	}
}

func TestEveryFieldOfAnOperationIsInTheFactsOrHasAColumn(t *testing.T) {
	columns := []string{"Handle", "Naming", "Provider", "Request", "State", "Holder", "SettledAt", "WakeAt", "Answer", "Delivered", "Tombstone"}
	facts := reflect.ValueOf(anOperation())
	for i := range facts.NumField() {
		name := facts.Type().Field(i).Name
		assert.Equal(t, slices.Contains(columns, name), facts.Field(i).IsZero(), "%s: give it a value in anOperation, and encode it", name)
	}
}

func TestWhatIsCutOffOrLongerIsRefused(t *testing.T) {
	facts := encodeFacts(row{op: anOperation()})
	request := encodeRequest(journal.Request{Header: http.Header{"A": {"b"}}, WithheldQuery: []string{"token"}}, false)
	answer := encodeAnswer(&journal.Answer{Header: http.Header{"A": {"b"}}, Pointer: "ch_1"}, false)
	refused := func(b []byte, decode func([]byte) error) {
		assert.NoError(t, decode(b))
		assert.ErrorIs(t, decode(append([]byte{}, append(b, 0)...)), errFormat)
		for n := range b {
			assert.ErrorIs(t, decode(append([]byte{}, b[:n]...)), errFormat, "%d of %d bytes", n, len(b))
		}
		newer := append([]byte{format + 1}, b[1:]...)
		assert.ErrorIs(t, decode(newer), errFormat)
	}
	refused(facts, func(b []byte) error { return decodeFacts(b, &row{op: journal.Operation{Ref: anOperation().Ref}}) })
	refused(request, func(b []byte) error { _, err := decodeRequest(b, nil); return err })
	refused(answer, func(b []byte) error { _, err := decodeAnswer(b, nil); return err })
}

// unsealed leaves out the sum.
func unsealed(b []byte) []byte { return b[:len(b)-sumSize] }

// aBlock has three operations, whose handles are 7, 9 and 300.
func aBlock() ([]*kept, []byte) {
	var ops []*kept
	for i, handle := range []int64{7, 9, 300} {
		op := anOperation()
		op.Handle, op.Scope, op.Parent, op.Provider = handle, "tenant", "flow", "ledger"
		op.Naming, op.State, op.Delivered, op.SettledAt = journal.Carried, journal.Completed, true, op.DueAt
		k := &kept{
			row:  row{op: op, identified: true, request: encodeRequest(journal.Request{Method: "POST", Body: []byte("a")}, false)},
			body: []byte("a"), answer: encodeAnswer(&journal.Answer{Status: 201}, false),
		}
		if i == 1 {
			k.answerBody = []byte("paid")
		}
		ops = append(ops, k)
	}
	return ops, slices.Clone(new(blockEncoder).encode(7, ops))
}

func TestABlockHasWhatWasPutIntoIt(t *testing.T) {
	ops, block := aBlock()
	var got []*kept
	collect := func(k *kept) error { got = append(got, k); return nil }
	require.NoError(t, eachOfBlock(7, block, all, collect))
	assert.Equal(t, ops, got)
	for handle, want := range map[int64]*kept{7: ops[0], 8: nil, 9: ops[1], 300: ops[2], 301: nil} {
		k, err := findInBlock([]driver.Value{int64(7), block}, handle)
		require.NoError(t, err)
		assert.Equal(t, want, k, handle)
	}
	for n := range block {
		assert.ErrorIs(t, eachOfBlock(7, block[:n], all, collect), errFormat, "%d of %d bytes", n, len(block))
	}
	assert.ErrorIs(t, eachOfBlock(7, append(block, 0), all, collect), errFormat)
	assert.ErrorIs(t, eachOfBlock(8, block, all, collect), errFormat, "it is in the place of another")
}

// FuzzBlock: what can be decoded is encoded to a block with the same operations.
func FuzzBlock(f *testing.F) {
	_, block := aBlock()
	f.Add(unsealed(block))
	f.Add(unsealed(new(blockEncoder).encode(7, nil)))
	f.Add([]byte{format, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		var ops, again []*kept
		if err := eachOfUnsealed(b, all, func(k *kept) error { ops = append(ops, k); return nil }); err != nil {
			require.ErrorIs(t, err, errFormat)
			return
		}
		block := new(blockEncoder).encode(7, ops)
		require.NoError(t, eachOfBlock(7, block, all, func(k *kept) error { again = append(again, k); return nil }))
		require.Equal(t, ops, again)
	})
}

// FuzzReplay: whatever stands in the log's records, it is refused or replayed.
func FuzzReplay(f *testing.F) {
	seed := &batch{writer: &writer{state: newState()}}
	for i := range int64(3) {
		op := anOperation()
		op.Handle = i + 1
		seed.record(&kept{row: row{op: op}}, withEverything)
		seed.record(&kept{row: row{op: op}}, withAnswer)
	}
	f.Add(seed.records)
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &writer{state: newState()}
		if _, err := w.replay(b); err != nil {
			require.ErrorIs(t, err, errFormat)
		}
	})
}

func TestATombstoneHasNoRequest(t *testing.T) {
	r, err := decodeRequest(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, journal.Request{}, r)
}

// What can be decoded is encoded to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	f.Add(unsealed(encodeFacts(row{op: anOperation()})))
	f.Add(unsealed(encodeFacts(row{})))
	f.Add(unsealed(encodeRequest(journal.Request{Method: "POST", Header: http.Header{"A": {"b", ""}, "C": nil}, Body: []byte{}, WithheldHeaders: []string{}}, false)))
	f.Add(unsealed(encodeAnswer(&journal.Answer{Status: 201, Header: http.Header{}, Trailer: http.Header{"X": {"y"}}, Cut: true}, false)))
	f.Add([]byte{format, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r row
		if err := decodeFacts(binary.LittleEndian.AppendUint32(slices.Clone(b), sumOf(b, r)), &r); err == nil {
			var again row
			require.NoError(t, decodeFacts(encodeFacts(r), &again))
			require.Equal(t, r, again)
		}
		b = seal(b)
		if r, err := decodeRequest(b, nil); err == nil && b != nil {
			again, err := decodeRequest(encodeRequest(r, false), nil)
			require.NoError(t, err)
			require.Equal(t, r, again)
		}
		if a, err := decodeAnswer(b, nil); err == nil {
			again, err := decodeAnswer(encodeAnswer(a, false), nil)
			require.NoError(t, err)
			require.Equal(t, a, again)
		}
	})
}
