package sqlite

import (
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
	}
}

func TestFactsComeBackAsTheyWere(t *testing.T) {
	sameKey := anOperation()
	sameKey.Key = sameKey.ID
	for name, op := range map[string]journal.Operation{"all": anOperation(), "none": {}, "same key": sameKey} {
		got := journal.Operation{Ref: op.Ref}
		require.NoError(t, decodeFacts(encodeFacts(op), &got), name)
		assert.Equal(t, op, got, name)
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
	facts := encodeFacts(anOperation())
	request := encodeRequest(journal.Request{Header: http.Header{"A": {"b"}}, WithheldQuery: []string{"token"}})
	answer := encodeAnswer(&journal.Answer{Header: http.Header{"A": {"b"}}, Pointer: "ch_1"})
	refused := func(b []byte, decode func([]byte) error) {
		assert.NoError(t, decode(b))
		assert.ErrorIs(t, decode(append([]byte{}, append(b, 0)...)), errFormat)
		for n := range b {
			assert.ErrorIs(t, decode(append([]byte{}, b[:n]...)), errFormat, "%d of %d bytes", n, len(b))
		}
		newer := append([]byte{format + 1}, b[1:]...)
		assert.ErrorIs(t, decode(newer), errFormat)
	}
	refused(facts, func(b []byte) error { return decodeFacts(b, new(journal.Operation)) })
	refused(request, func(b []byte) error { _, err := decodeRequest(b); return err })
	refused(answer, func(b []byte) error { _, err := decodeAnswer(b); return err })
}

func TestATombstoneHasNoRequest(t *testing.T) {
	r, err := decodeRequest(nil)
	require.NoError(t, err)
	assert.Equal(t, journal.Request{}, r)
}

// What can be decoded is encoded to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	f.Add(encodeFacts(anOperation()))
	f.Add(encodeFacts(journal.Operation{}))
	f.Add(encodeRequest(journal.Request{Method: "POST", Header: http.Header{"A": {"b", ""}, "C": nil}, Body: []byte{}, WithheldHeaders: []string{}}))
	f.Add(encodeAnswer(&journal.Answer{Status: 201, Header: http.Header{}, Trailer: http.Header{"X": {"y"}}, Cut: true}))
	f.Add([]byte{format, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		var op journal.Operation
		if err := decodeFacts(b, &op); err == nil {
			var again journal.Operation
			require.NoError(t, decodeFacts(encodeFacts(op), &again))
			require.Equal(t, op, again)
		}
		if r, err := decodeRequest(b); err == nil && b != nil {
			again, err := decodeRequest(encodeRequest(r))
			require.NoError(t, err)
			require.Equal(t, r, again)
		}
		if a, err := decodeAnswer(b); err == nil {
			again, err := decodeAnswer(encodeAnswer(a))
			require.NoError(t, err)
			require.Equal(t, a, again)
		}
	})
}
