package format

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// A box opens in its own journal alone, also if another journal has the key and a record of the same name.
func TestBoxesOfAnotherJournalAreDamage(t *testing.T) {
	ring := aRing(t, "k1")
	for name, of := range all(t, Codec{Ring: ring, Journal: HashKey{1}}, aRef) {
		_, _, err := of.decode(Codec{Ring: ring, Journal: HashKey{1}}, of.values)
		require.NoError(t, err, name)
		_, _, err = of.decode(Codec{Ring: ring, Journal: HashKey{2}}, of.values)
		assert.ErrorIs(t, err, ErrDamaged, name)
		_, _, err = of.decode(Codec{Ring: ring.ReadClear(), Journal: HashKey{2}}, of.values)
		assert.ErrorIs(t, err, ErrDamaged, name)
	}
}

// A private field in clear beside an operation's box is damage: no key is needed to write it.
func TestAnOperationsFieldsBesideItsBox(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	op, _, _, _ := records()
	forged := &journal.Answer{Status: 200, Body: []byte("forged")}
	for name, forge := range map[string]func(op *journal.Operation){
		"nothing":              func(*journal.Operation) {},
		"fingerprint":          func(op *journal.Operation) { op.Fingerprint = "forged" },
		"last answer":          func(op *journal.Operation) { op.LastAnswer = forged },
		"answer of evidence":   func(op *journal.Operation) { op.Evidence[0].Answer = forged },
		"digest of evidence":   func(op *journal.Operation) { op.Evidence[0].Digest = "forged" },
		"a tombstone's answer": func(op *journal.Operation) { op.Tombstone, op.LastAnswer = true, forged },
	} {
		sealed := op
		sealed.LastAnswer, sealed.Evidence = nil, slices.Clone(op.Evidence)
		for i := range sealed.Evidence {
			sealed.Evidence[i].Answer = nil
		}
		_, box, err := c.ReadOperation(c.AppendOperation(nil, &sealed, nil))
		require.NoError(t, err)
		is := withoutPrivate(&sealed)
		forge(&is)
		clear, boxed := Codec{}.AppendOperation(nil, &is, nil), Codec{}.AppendOperation(nil, &is, box)
		facts := 0
		for clear[facts] == boxed[facts] {
			facts++
		}
		clear[facts] = sealedVersion
		got, _, err := c.ReadOperation(append(clear, box...))
		if name == "nothing" {
			require.NoError(t, err)
			assert.Equal(t, sealed.Fingerprint, got.Fingerprint)
			continue
		}
		assert.ErrorIs(t, err, ErrDamaged, name)
	}
}

// A flow's box belongs to its function, to whether the flow is undone, and to its input. A person without the key could
// otherwise have other requests made of the input.
func TestAFlowsFieldsBesideItsBox(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	_, f, _, _ := records()
	stored, input := c.EncodeFlow(&f, &journal.Flow{}, StoredFlow{})
	stored = stored[:len(stored)-SumSize]
	plant := func(old, new string) func(*journal.Flow, *[]byte, *[]byte) {
		return func(_ *journal.Flow, facts, _ *[]byte) {
			require.Contains(t, string(*facts), old)
			*facts = bytes.Replace(*facts, []byte(old), []byte(new), 1)
		}
	}
	for name, forge := range map[string]func(f *journal.Flow, facts, input *[]byte){
		"nothing":         func(*journal.Flow, *[]byte, *[]byte) {},
		"another name":    func(f *journal.Flow, _, _ *[]byte) { f.Function.Name = "refund" },
		"another version": func(f *journal.Flow, _, _ *[]byte) { f.Function.Version++ },
		"no input":        func(_ *journal.Flow, _, input *[]byte) { *input = nil },
		"no input, in a tombstone that runs": func(f *journal.Flow, _, input *[]byte) {
			f.Tombstone, *input = true, nil
		},
		"undone":             plant(`"input_digest":""`, `"input_digest":"","undoing":true`),
		"a digest in clear":  plant(`"input_digest":""`, `"input_digest":"forged"`),
		"a cause in clear":   plant(`"input_digest":""`, `"input_digest":"","cause":"forged"`),
		"a reason in clear":  plant(`"input_digest":""`, `"input_digest":"","given_up_for":"forged"`),
		"a history in clear": plant(`"input_digest":""`, `"input_digest":"","history":[{"error":"forged"}]`),
	} {
		is := journal.Flow{Handle: f.Handle, Ref: f.Ref, Function: f.Function, State: f.State}
		facts, in := bytes.Clone(stored), bytes.Clone(input)
		forge(&is, &facts, &in)
		_, err := c.DecodeFlow(&is, binary.LittleEndian.AppendUint32(facts, sumOfFlow(facts, &is, is.DueAt, in)), in)
		if name == "nothing" {
			require.NoError(t, err)
			continue
		}
		assert.ErrorIs(t, err, ErrDamaged, name)
	}
}

// A reaped flow has nothing to seal, whether the process that reaps has the key or not.
func TestAReapedFlowHasNoBox(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	_, f, _, _ := records()
	f.State, f.History = journal.FlowStateFinished, nil
	facts, input := c.EncodeFlow(&f, &journal.Flow{}, StoredFlow{})
	for _, reaps := range []Codec{c, {}} {
		was := journal.Flow{Handle: f.Handle, Ref: f.Ref, Function: f.Function, State: f.State}
		box, err := reaps.DecodeFlow(&was, facts, input)
		require.NoError(t, err)
		next := was
		next.Tombstone, next.Input, next.InputDigest, next.GivenUpFor, next.Cause = true, nil, "", "", ""
		reaped, none := reaps.EncodeFlow(&next, &was, StoredFlow{box, input})
		require.Empty(t, none)
		is := journal.Flow{Handle: f.Handle, Ref: f.Ref, Function: f.Function, State: f.State, Tombstone: true}
		box, err = Codec{Ring: aRing(t, "k2")}.DecodeFlow(&is, reaped, nil)
		require.NoError(t, err)
		assert.Empty(t, box)
		assert.Empty(t, is.SealedBy)

		next.Cause = "forged"
		reaped, _ = Codec{}.EncodeFlow(&next, &was, StoredFlow{})
		_, err = c.DecodeFlow(&is, reaped, nil)
		assert.ErrorIs(t, err, ErrClear)
	}
}

// A step's result stays with its step. A step without a result has a box too.
func TestAStepsFieldsBesideItsBox(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	_, _, step, _ := records()
	for name, forge := range map[string]func(s *journal.StepRecord){
		"nothing":          func(*journal.StepRecord) {},
		"another name":     func(s *journal.StepRecord) { s.Name = "refund" },
		"another kind":     func(s *journal.StepRecord) { s.Kind = journal.StepFailed },
		"another place":    func(s *journal.StepRecord) { s.Position++ },
		"beside others":    func(s *journal.StepRecord) { s.Parallel = true },
		"no result":        func(s *journal.StepRecord) { s.Result = nil },
		"an empty result":  func(s *journal.StepRecord) { s.Result = []byte{} },
		"a result in text": func(s *journal.StepRecord) { s.Result = []byte(`"forged"`) },
	} {
		is := step
		is.Result = c.EncodeStep(aRef, &step)
		forge(&is)
		_, err := c.DecodeStep(aRef, &is)
		if name == "nothing" {
			require.NoError(t, err)
			assert.Equal(t, step.Result, is.Result)
			continue
		}
		assert.ErrorIs(t, err, ErrDamaged, name)
	}
	none := step
	none.Result = nil
	none.Result = c.EncodeStep(aRef, &none)
	require.NotEmpty(t, none.Result)
	_, err := c.DecodeStep(aRef, &none)
	require.NoError(t, err)
	assert.Nil(t, none.Result)
}

// A box of one column opens in no other, also of the same name.
func TestBoxesOfOtherColumnsAreDamage(t *testing.T) {
	c := Codec{Ring: aRing(t, "k1")}
	mine := all(t, c, aRef)
	for name, of := range mine {
		for other, from := range mine {
			for i := range of.values {
				for k, value := range from.values {
					if name == other && i == k {
						continue
					}
					moved := slices.Clone(of.values)
					moved[i] = value
					_, _, err := of.decode(c, moved)
					assert.ErrorIs(t, err, ErrDamaged, "value %d of the %s in place of value %d of the %s", k, other, i, name)
				}
			}
		}
	}
}
