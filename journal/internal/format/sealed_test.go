package format

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/seal"
)

func aRing(t testing.TB, ids ...string) *seal.Ring {
	var all []seal.Key
	for _, id := range ids {
		secret := bytes.Repeat([]byte(id), seal.SecretSize)
		all = append(all, seal.Key{ID: id, Secret: secret[:seal.SecretSize]})
	}
	r, err := seal.NewRing(all...)
	require.NoError(t, err)
	return r
}

// sealedFields are the fields of each record that a journal keeps: a new field is sealed, or has a reason to be in clear.
var sealedFields = map[reflect.Type]struct{ sealed, clear string }{
	reflect.TypeFor[journal.Request](): {sealed: "Method URL Host Header Body WithheldHeaders WithheldQuery"},
	reflect.TypeFor[journal.Answer](): {
		sealed: "Header Trailer Body Pointer Replaced",
		clear:  "Generation Status Omitted Cut Refused ByHand Found",
	},
	reflect.TypeFor[journal.Operation](): {
		sealed: "Fingerprint Request Answer Compare LastAnswer Evidence",
		clear: "Handle Ref State Naming KeyCarried BodyWithheld ReferenceOurs Provider Endpoint Key Generation Terms Credential Mode Alias Form " +
			"Holder Claim Asker MayHaveRun Failed WindowClosed FirstSentAt SentSince Found LastEndedAt BusySince ParkedSince Attempts CreatedAt UpdatedAt SettledAt DueAt WakeAt DueOwn " +
			"Enqueued InboundEndpoint Flow Trace NotAfter Cause Told ByHand Delivered Tombstone Adopted SecondEffects Resolved Account Reference ReferenceName Row Rounds " +
			"Object Looks LookedAt LookAt LeftFor Attention Disputed Withdrawn Newer SealedBy",
	},
	reflect.TypeFor[journal.Evidence](): {
		sealed: "Digest Answer",
		clear:  "At Generation Source Actor Target Status Pages Finding Basis Object Rule Why",
	},
	reflect.TypeFor[journal.Flow](): {
		sealed: "Input InputDigest GivenUpFor Cause History Steps",
		clear:  "Handle Ref Function Key InboundEndpoint Trace State Holder Claim Undoing DueAt WaitsFor ParkedSince Failures CreatedAt UpdatedAt EndedAt Tombstone SealedBy",
	},
	reflect.TypeFor[journal.StepRecord](): {sealed: "Result", clear: "Seq Kind Name Position Parallel At"},
	reflect.TypeFor[journal.Receipt](): {
		sealed: "Fingerprint Answer",
		clear:  "Handle ReceiptKey Place State Claim CreatedAt SettledAt ExpiresAt RefusedUntil Cause SealedBy",
	},
	reflect.TypeFor[journal.Bookmark](): {clear: "Name Version At Note"}, // the program's own, and never a secret
}

func TestEachFieldIsSealedOrHasAReasonNotToBe(t *testing.T) {
	for record, fields := range sealedFields {
		listed := strings.Fields(fields.sealed + " " + fields.clear)
		var all []string
		for i := range record.NumField() {
			all = append(all, record.Field(i).Name)
		}
		assert.ElementsMatch(t, all, listed, "%s: seal a new field, or say here that it is in clear", record)
	}
}

// word stands in each sealed field, and in no clear one.
const word = "planted-word"

// records are one of each record, with each sealed field set.
func records() (op journal.Operation, f journal.Flow, step journal.StepRecord, r journal.Receipt) {
	header := http.Header{"X-" + word: {word}}
	answer := func() *journal.Answer {
		return &journal.Answer{Generation: 2, Status: 201, Header: header, Trailer: header, Body: []byte(word), Pointer: word}
	}
	op = anOperation()
	op.Fingerprint, op.Compare, op.LastAnswer = word, []journal.Field{{Name: word, Value: word}}, answer()
	op.State = journal.StateInFlight
	for i := range op.Evidence {
		op.Evidence[i].Digest, op.Evidence[i].Answer = word, answer()
	}
	op.Request = journal.Request{Method: word, URL: word, Host: word, Header: header, Body: []byte(word), WithheldHeaders: []string{word}, WithheldQuery: []string{word}}
	op.Answer = answer()
	op.Answer.Replaced = answer()
	at := op.UpdatedAt
	f = journal.Flow{Handle: 3, Ref: op.Ref, Function: journal.FlowFunction{Name: "order"}, Input: []byte(word), InputDigest: word, GivenUpFor: word, Cause: word,
		History: []journal.FlowFailure{{At: at, Error: word}}, State: journal.FlowStateRunning, CreatedAt: at, UpdatedAt: at}
	step = journal.StepRecord{Seq: 1, Kind: journal.StepDone, Name: "pay", Result: []byte(`"` + word + `"`), At: at}
	r = journal.Receipt{Handle: 5, ReceiptKey: journal.ReceiptKey{Scope: "tenant", Key: "k"}, Place: "rides", State: journal.ReceiptCompleted, Claim: 1, Fingerprint: word,
		CreatedAt: at, SettledAt: at, Answer: &journal.Answer{Status: 201, Header: header, Body: []byte(word)}}
	return op, f, step, r
}

// stored are a record's values as they are stored, and decode reads them.
type stored struct {
	values [][]byte
	decode func(c Codec, values [][]byte) (got any, by string, err error)
}

// all encodes each record for the names.
func all(t *testing.T, c Codec, ref journal.Ref) map[string]stored {
	op, f, step, r := records()
	op.Ref, f.Ref, r.ReceiptKey.Key = ref, ref, ref.ID
	request, body := c.EncodeRequest(ref, &op.Request)
	answer, answerBody := c.EncodeAnswer(ref, op.Answer)
	facts, input := c.EncodeFlow(&f, &journal.Flow{}, StoredFlow{})
	receipt, its, bodyOfIt := c.EncodeReceipt(&r, 7, nil)
	return map[string]stored{
		"operation": {[][]byte{c.AppendOperation(nil, &op, nil)}, func(c Codec, v [][]byte) (any, string, error) {
			op, _, err := c.ReadOperation(v[0])
			return op, op.SealedBy, err
		}},
		"request": {[][]byte{request, body}, func(c Codec, v [][]byte) (any, string, error) { return c.DecodeRequest(ref, v[0], v[1]) }},
		"answer":  {[][]byte{answer, answerBody}, func(c Codec, v [][]byte) (any, string, error) { return c.DecodeAnswer(ref, v[0], v[1]) }},
		"flow": {[][]byte{facts, input}, func(c Codec, v [][]byte) (any, string, error) {
			got := journal.Flow{Handle: f.Handle, Ref: ref, Function: f.Function, State: f.State}
			_, err := c.DecodeFlow(&got, v[0], v[1])
			return got, got.SealedBy, err
		}},
		"step": {[][]byte{c.EncodeStep(ref, &step)}, func(c Codec, v [][]byte) (any, string, error) {
			got := step
			got.Result = v[0]
			by, err := c.DecodeStep(ref, &got)
			return got, by, err
		}},
		"receipt": {[][]byte{receipt, its, bodyOfIt}, func(c Codec, v [][]byte) (any, string, error) {
			got := journal.Receipt{Handle: r.Handle, ReceiptKey: r.ReceiptKey, Place: r.Place, State: r.State}
			_, err := c.DecodeReceipt(&got, 7, v[0], v[1])
			if err == nil {
				err = c.DecodeReceiptAnswer(&got, v[1], v[2])
			}
			return got, got.SealedBy, err
		}},
	}
}

var aRef = journal.Ref{Scope: "s", Parent: "p", ID: "invoice-991"}

func TestSealedRecordsComeBackAsTheyWere(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	for name, of := range all(t, c, aRef) {
		got, by, err := of.decode(c, of.values)
		require.NoError(t, err, name)
		assert.Empty(t, by, name)
		clear := all(t, Codec{}, aRef)[name]
		want, _, err := clear.decode(Codec{}, clear.values)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
		for i, value := range of.values {
			assert.NotContains(t, string(value), word, "value %d of the %s", i, name)
			assert.Contains(t, string(clear.values[i]), word, "value %d of the %s: the test plants a word there", i, name)
		}
	}
}

// Without the key, each record has its clear fields, and the key's name. A rotated ring opens what the former key sealed.
func TestAMissingKeyIsNamed(t *testing.T) {
	for name, of := range all(t, Codec{Ring: aRing(t, "k1")}, aRef) {
		for _, lacks := range []Codec{{}, {Ring: aRing(t, "k2")}, {Ring: aRing(t, "k2").ReadClear()}} {
			got, by, err := of.decode(lacks, of.values)
			require.NoError(t, err, name)
			assert.Equal(t, "k1", by, name)
			v := reflect.Indirect(reflect.ValueOf(got))
			if sealed := strings.Fields(sealedFields[v.Type()].sealed); !slices.Contains([]string{"receipt", "operation"}, name) {
				for _, field := range sealed {
					assert.Zero(t, v.FieldByName(field).Interface(), "%s.%s", name, field)
				}
			}
		}
		_, by, err := of.decode(Codec{Ring: aRing(t, "k2", "k1")}, of.values)
		require.NoError(t, err, name)
		assert.Empty(t, by, name)
	}
	assert.ErrorIs(t, Sealed("k1"), journal.ErrSealed)
	assert.ErrorContains(t, Sealed("k1"), `"k1"`)
	assert.NoError(t, Sealed(""))
}

// Clear text in the place of a box is damage, unless the ring reads clear payloads.
func TestClearTextIsDamage(t *testing.T) {
	for name, of := range all(t, Codec{}, aRef) {
		_, _, err := of.decode(Codec{Ring: aRing(t, "k1")}, of.values)
		assert.ErrorIs(t, err, ErrDamaged, name)
		_, _, err = of.decode(Codec{Ring: aRing(t, "k1").ReadClear()}, of.values)
		assert.NoError(t, err, name)
	}
}

// The values of another record, or those of one record in another order, do not open.
func TestBoxesOfOtherRecordsAreDamage(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	mine := all(t, c, aRef)
	for _, other := range []journal.Ref{{Scope: "s", Parent: "p", ID: "invoice-992"}, {Scope: "sp", ID: "invoice-991"}, {Scope: "s2", Parent: "p", ID: "invoice-991"}} {
		theirs := all(t, c, other)
		for name, of := range mine {
			if name == "operation" { // its names are in the record
				continue
			}
			for i := range of.values {
				swapped := slices.Clone(of.values)
				swapped[i] = theirs[name].values[i]
				_, _, err := of.decode(c, swapped)
				assert.ErrorIs(t, err, ErrDamaged, "value %d of the %s of %v", i, name, other)
			}
		}
	}
	_, box, err := c.ReadOperation(mine["operation"].values[0])
	require.NoError(t, err)
	op, _, _, _ := records()
	_, _, err = c.ReadOperation(c.AppendOperation(nil, &op, box))
	assert.ErrorIs(t, err, ErrDamaged, "the private fields of another operation")
	earlier := journal.Answer{Generation: 1, Body: []byte("earlier")}
	_, body := c.EncodeAnswer(aRef, &earlier)
	_, _, err = c.DecodeAnswer(aRef, mine["answer"].values[0], body)
	assert.ErrorIs(t, err, ErrDamaged, "the body of an earlier generation")
	at := time.UnixMilli(0)
	second := journal.StepRecord{Seq: 2, Result: all(t, c, aRef)["step"].values[0], At: at}
	_, err = c.DecodeStep(aRef, &second)
	assert.ErrorIs(t, err, ErrDamaged, "the result of another step")
}

// Each flipped bit of a sealed record is damage. In the head of a request or an answer this holds even with the right
// checksum, so that nothing in clear beside the box changes either.
func TestFlippedBitsAreDamage(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	for name, of := range all(t, c, aRef) {
		if name == "operation" { // its row has the checksum
			continue
		}
		for i, value := range of.values {
			size, summed := len(value), i == 0 && (name == "request" || name == "answer")
			if summed {
				size -= SumSize
			}
			for bit := range size * 8 {
				flipped := slices.Clone(of.values)
				flipped[i] = slices.Clone(value[:size])
				flipped[i][bit/8] ^= 1 << (bit % 8)
				if summed {
					flipped[i] = withSum(flipped[i])
				}
				_, by, err := of.decode(c, flipped)
				if by == "" { // a flipped ID names a key that no process has
					require.ErrorIs(t, err, ErrDamaged, "bit %d of value %d of the %s", bit, i, name)
				}
			}
		}
	}
}

// A release without seals takes each sealed record for damaged, and compares no empty fingerprint.
func TestAReleaseWithoutSealsReadsNoSealedRecord(t *testing.T) {
	sealed := all(t, Codec{Ring: aRing(t, "k1")}, aRef)
	for name, of := range sealed {
		first := of.values[0]
		switch name {
		case "flow", "receipt":
			assert.False(t, json.Valid(first[:len(first)-SumSize]), name)
			assert.True(t, json.Valid(first[1:len(first)-SumSize]), name)
		case "request", "answer":
			assert.NotEqual(t, byte(version), first[0], name)
		case "step":
			assert.False(t, json.Valid(first), name)
		case "operation":
			d := decoder{buf: first}
			var op journal.Operation
			op.Handle = d.int()
			d.byte()
			for range 4 {
				_ = d.string()
			}
			d.byte()
			d.byte()
			_ = d.string()
			d.time()
			d.time()
			assert.Equal(t, byte(sealedVersion), d.byte(), "where the facts begin")
		}
	}
}

// A row keeps its box while no private field changes.
func TestABoxStays(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	op, f, _, r := records()
	written := c.AppendOperation(nil, &op, nil)
	without, box, err := Codec{}.ReadOperation(written)
	require.NoError(t, err)
	without.Cause = "resolved"
	op.Cause = "resolved"
	got, kept, err := c.ReadOperation(Codec{}.AppendOperation(nil, &without, box))
	require.NoError(t, err)
	assert.Equal(t, box, kept)
	assert.Equal(t, op.Fingerprint, got.Fingerprint)
	assert.Equal(t, op.Evidence, got.Evidence)

	facts, input := c.EncodeFlow(&f, &journal.Flow{}, StoredFlow{})
	kind := journal.Flow{Handle: f.Handle, Ref: f.Ref, Function: f.Function, State: f.State}
	sealed := kind
	flowBox, err := Codec{}.DecodeFlow(&sealed, facts, input)
	require.NoError(t, err)
	facts, again := Codec{}.EncodeFlow(&sealed, &sealed, StoredFlow{Box: flowBox, Input: input})
	assert.Equal(t, input, again)
	_, err = c.DecodeFlow(&kind, facts, again)
	require.NoError(t, err)
	assert.Equal(t, f.InputDigest, kind.InputDigest)
	assert.Equal(t, f.Input, kind.Input)

	row, answer, _ := c.EncodeReceipt(&r, 7, nil)
	own := journal.Receipt{Handle: r.Handle, ReceiptKey: r.ReceiptKey, Place: r.Place, State: r.State}
	receiptBox, err := Codec{}.DecodeReceipt(&own, 7, row, answer)
	require.NoError(t, err)
	own.Answer = nil // as reaped
	row, _, _ = Codec{}.EncodeReceipt(&own, 7, receiptBox)
	own = journal.Receipt{Handle: r.Handle, ReceiptKey: r.ReceiptKey, Place: r.Place, State: r.State}
	_, err = c.DecodeReceipt(&own, 7, row, nil)
	require.NoError(t, err)
	assert.Equal(t, r.Fingerprint, own.Fingerprint)
}

// An outcome takes some fields from an operation. A process without the key cannot change the box, so the decoder leaves
// these fields out.
func TestAnOutcomeWithoutTheKey(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	op, _, _, _ := records()
	without, box, err := Codec{}.ReadOperation(c.AppendOperation(nil, &op, nil))
	require.NoError(t, err)
	without.State = journal.StateCancelled
	got, _, err := c.ReadOperation(Codec{}.AppendOperation(nil, &without, box))
	require.NoError(t, err)
	assert.Nil(t, got.LastAnswer)
	for _, v := range got.Evidence {
		assert.Nil(t, v.Answer)
		assert.Equal(t, word, v.Digest)
	}
}
