package format

import (
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// without is op as an earlier release had it, before there were fields with tags.
func without(op journal.Operation) journal.Operation {
	clearExtras(&op)
	return op
}

// The records that testdata/operations.hex has are read, and written again, byte for byte.
func TestRecordsOfEarlierReleases(t *testing.T) {
	golden, err := os.ReadFile("testdata/operations.hex")
	require.NoError(t, err)
	sameKey := without(anOperation())
	sameKey.Key = sameKey.ID
	lines := strings.Fields(string(golden))
	all := []journal.Operation{anOperation(), without(anOperation()), sameKey, {}}
	require.Len(t, lines, len(all))
	for i, want := range all {
		assert.Equal(t, lines[i], hex.EncodeToString(Codec{}.AppendOperation(nil, &want, nil)))
		written, err := hex.DecodeString(lines[i])
		require.NoError(t, err)
		got, _, err := Codec{}.ReadOperation(written)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// Fields that a newer release added survive a release that does not know them and writes the operation. The known
// fields change as that release wrote them.
func TestFieldsOfANewerReleaseAreKept(t *testing.T) {
	op := without(anOperation())
	op.Newer = []byte{0x80, 0x08, 2, 'o', 'n'}
	got, _, err := Codec{}.ReadOperation(Codec{}.AppendOperation(nil, &op, nil))
	require.NoError(t, err)
	assert.Equal(t, op.Newer, got.Newer)
	got.Enqueued, got.NotAfter = true, op.CreatedAt
	again, _, err := Codec{}.ReadOperation(Codec{}.AppendOperation(nil, &got, nil))
	require.NoError(t, err)
	assert.Equal(t, got, again)
}

func TestFieldsWithTagsAreReadStrictly(t *testing.T) {
	decode := func(b ...byte) error {
		var e encoder
		e.bytes(b)
		d := decoder{buf: e.buf}
		d.extras(new(journal.Operation), true)
		return d.end()
	}
	require.NoError(t, decode(5, 0, 1, 1, 2, 40, 1, 7))
	for name, b := range map[string][]byte{
		"none at all":           {},
		"a tag alone":           {5},
		"a time that is zero":   {1, 1, 0},
		"a time and more":       {1, 2, 2, 2},
		"a mark with a value":   {5, 1, 1},
		"one field twice":       {5, 0, 5, 0},
		"cut off within":        {1, 4, 2},
		"a newer one, cut off":  {40, 4, 2},
		"a tag that never ends": {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
	} {
		assert.ErrorIs(t, decode(b...), ErrDamaged, name)
	}
	for tag := range uint64(64) {
		known := new(decoder).extra(tag, new(journal.Operation))
		assert.Equal(t, slices.Contains(tags[:], tag), known, "what is read under tag %d is written", tag)
	}
}
