package format

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

func anOperation() journal.Operation {
	at := time.UnixMilli(1772366400123).UTC()
	return journal.Operation{
		Ref: journal.Ref{ID: "invoice-991/charge"}, Key: "k", KeyCarried: true, Credential: "salted digest", Endpoint: "POST /charges", Fingerprint: "v1:f", Cause: "503",
		Generation: 2, Claim: 7, Attempts: 3, SecondEffects: 1,
		Terms:      journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true, Handling: time.Nanosecond},
		MayHaveRun: true, FirstSentAt: at, Found: journal.Found{MayHaveRun: true, FirstSentAt: at.Add(-time.Hour)},
		LastEndedAt: at.Add(time.Hour), WindowClosed: true, BusySince: at, CreatedAt: time.UnixMilli(0).UTC(),
		UpdatedAt: time.UnixMilli(-1).UTC(), DueAt: at, Told: true, ByHand: true,
		SentSince: at.Add(-time.Minute), Mode: "test", Form: "header Idempotency-Key", BodyWithheld: true, Failed: true, DueOwn: true, Asker: 9,
		Alias:    journal.Ref{Scope: "tenant", Parent: "carried", ID: "k"},
		Resolved: &journal.Resolved{Resolution: journal.Hold, By: "jane", Why: "looked", At: at, Generation: 1, Claim: 3},
		Account:  "acct_1", Reference: "r-2", ReferenceName: "form metadata[onceward]", ReferenceOurs: true,
		Compare: []journal.Field{{Name: "amount", Value: "4200"}}, Rounds: []journal.Round{{Generation: 1, Key: "k1", Reference: "r-1"}},
		Object: "payment pay_1", Looks: 3, LookedAt: at, Attention: "ambiguous", Disputed: true, LeftFor: time.Hour, Row: "0a1b2c", Adopted: true,
		LastAnswer: &journal.Answer{Status: 422, Header: http.Header{"A": {"b"}}, Body: []byte("why"), Cut: true},
		Evidence: []journal.Evidence{
			{At: at, Generation: 1, Source: journal.SourceLook, Actor: "host", Target: "GET /payments", Status: 403, Pages: 2,
				Finding: journal.FindingInconclusive, Basis: journal.BasisKey, Digest: "d", Rule: "https://example.com/docs", Why: "403"},
			{At: at, Generation: 2, Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Object: "payment pay_1",
				Answer: &journal.Answer{Status: 200, Body: []byte("{}"), Found: true}},
		},
		Withdrawn: &journal.Resolved{Resolution: journal.Withdraw, By: "jane", Why: "cancelled", At: at, Generation: 2, Claim: 7},
		NotAfter:  at.Add(time.Hour), ParkedSince: at, Enqueued: true, Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", InboundEndpoint: "POST /rides",
		Flow:  journal.FlowRef{ID: "order-991", Parent: "inbound 4711", Handle: 12},
		Newer: []byte{0x80, 0x08, 2, 'o', 'n', 0x81, 0x08, 0}, // tags 1024 and 1025
	}
}

func TestOperationsComeBackAsTheyWere(t *testing.T) {
	sameKey := anOperation()
	sameKey.Key = sameKey.ID
	for name, want := range map[string]journal.Operation{"all": anOperation(), "none": {}, "same key": sameKey} {
		got, _, err := Codec{}.ReadOperation(Codec{}.AppendOperation(nil, &want, nil))
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
}

// Every field of an operation is in the facts, or beside them in its record or its row.
func TestOperationsFieldsAreAllKept(t *testing.T) {
	columns := []string{"Handle", "Naming", "Provider", "Request", "State", "Holder", "SettledAt", "WakeAt", "LookAt", "Answer", "Delivered", "Tombstone", "SealedBy"}
	facts := reflect.ValueOf(anOperation())
	for i := range facts.NumField() {
		name := facts.Type().Field(i).Name
		assert.Equal(t, slices.Contains(columns, name), facts.Field(i).IsZero(), "%s: give it a value in anOperation, and encode it", name)
	}
}

func TestTruncatedOrLongerDataIsRefused(t *testing.T) {
	op := anOperation()
	request, _ := Codec{}.EncodeRequest(op.Ref, &journal.Request{Header: http.Header{"A": {"b"}}, WithheldQuery: []string{"token"}})
	answer, _ := Codec{}.EncodeAnswer(op.Ref, &journal.Answer{Header: http.Header{"A": {"b"}}, Pointer: "ch_1"})
	refused := func(b []byte, decode func([]byte) error) {
		assert.NoError(t, decode(b))
		assert.ErrorIs(t, decode(append([]byte{}, append(b, 0)...)), ErrDamaged)
		for n := range b {
			assert.ErrorIs(t, decode(append([]byte{}, b[:n]...)), ErrDamaged, "%d of %d bytes", n, len(b))
		}
	}
	sealed := func(b []byte, decode func([]byte) error) {
		refused(b, decode)
		newer := append([]byte{sealedVersion + 1}, b[1:]...)
		assert.ErrorIs(t, decode(newer), ErrDamaged)
	}
	refused(Codec{}.AppendOperation(nil, &op, nil), func(b []byte) error { _, _, err := Codec{}.ReadOperation(b); return err })
	sealed(request, func(b []byte) error { _, _, err := Codec{}.DecodeRequest(op.Ref, b, nil); return err })
	sealed(answer, func(b []byte) error { _, _, err := Codec{}.DecodeAnswer(op.Ref, b, nil); return err })
}

// unsealed leaves out the sum.
func unsealed(b []byte) []byte { return b[:len(b)-SumSize] }

func TestATombstoneHasNoRequest(t *testing.T) {
	r, _, err := Codec{}.DecodeRequest(journal.Ref{}, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, journal.Request{}, r)
}

// FuzzDecode encodes each record that it can decode again. The result decodes to the same record.
func FuzzDecode(f *testing.F) {
	var c Codec
	var of journal.Ref
	op := anOperation()
	request, _ := c.EncodeRequest(of, &journal.Request{Method: "POST", Header: http.Header{"A": {"b", ""}, "C": nil}, Body: []byte{}, WithheldHeaders: []string{}})
	answer, _ := c.EncodeAnswer(of, &journal.Answer{Status: 201, Header: http.Header{}, Trailer: http.Header{"X": {"y"}}, Cut: true})
	ring := Codec{Ring: aRing(f, "k1")}
	sealed, _ := ring.EncodeRequest(of, &journal.Request{Method: "POST"})
	f.Add(c.AppendOperation(nil, &op, nil))
	f.Add(c.AppendOperation(nil, new(journal.Operation), nil))
	f.Add(ring.AppendOperation(nil, &op, nil))
	f.Add(unsealed(request))
	f.Add(unsealed(answer))
	f.Add(unsealed(sealed))
	f.Add([]byte{version, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		if op, box, err := c.ReadOperation(b); err == nil {
			again, kept, err := c.ReadOperation(c.AppendOperation(nil, &op, box))
			require.NoError(t, err)
			require.Equal(t, op, again)
			require.Equal(t, box, kept)
		}
		b = withSum(b)
		if r, by, err := c.DecodeRequest(of, b, nil); err == nil && b != nil && by == "" {
			again, _, err := c.DecodeRequest(of, head(c.EncodeRequest(of, &r)), nil)
			require.NoError(t, err)
			require.Equal(t, r, again)
		}
		if a, by, err := c.DecodeAnswer(of, b, nil); err == nil && by == "" {
			again, _, err := c.DecodeAnswer(of, head(c.EncodeAnswer(of, a)), nil)
			require.NoError(t, err)
			require.Equal(t, a, again)
		}
	})
}

func head(b, _ []byte) []byte { return b }
