//go:build unix

package sqlite_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite"
)

// segmented leaves a closed journal of three sealed segments and a part of one. The operations of the first segment and
// some of the second were reaped. The others are in blocks, except three: a waiting one, a waiting one with a second
// name, and an undelivered one.
func segmented(t *testing.T) (path string, handles map[string]int64) {
	t.Helper()
	path, j, s := joined(t)
	handles = make(map[string]int64)
	at := time.Now()
	apply := func(ev journal.Event) journal.Operation {
		result, err := j.Apply(t.Context(), ev)
		assert.NoError(t, err)
		return result.Operation
	}
	sideBySide(1100, func(i int) {
		ev := generate(fmt.Sprint("early ", i), s)
		ev.Intent.Terms.Retention, ev.At = 0, at
		done := complete(apply(ev), s)
		done.At = at
		apply(done)
	})
	n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: at}, 1050)
	require.NoError(t, err)
	require.Equal(t, 1050, n)
	for _, id := range []string{"pending", "carried pending", "carried", "undelivered"} {
		ev := begin(id, s)
		if id != "pending" && id != "undelivered" {
			ev.Intent.Alias = aliasOf(id)
		}
		op := apply(ev)
		handles[id] = op.Handle
		done := complete(op, s)
		switch id {
		case "undelivered":
			done.Delivered = false
		case "pending", "carried pending":
			done.Kind, done.Answer, done.Delivered, done.Unsent = journal.EventPark, nil, false, true
		}
		apply(done)
	}
	others(t, j, s, "later")
	others(t, j, s, "latest")
	require.NoError(t, sqlite.Fold(j))
	require.Empty(t, verify(t, j))
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	return path, handles
}

// blockOf returns the operations of the block that contains this handle.
func blockOf(t *testing.T, path string, handle int64) (first int64, ops []*format.Record) {
	t.Helper()
	for _, row := range rowsIn(t, path, "first, data", fmt.Sprintf("onceward_blocks WHERE first <= %d ORDER BY first DESC LIMIT 1", handle)) {
		first = row[0].(int64)
		require.NoError(t, format.EachOfBlock(first, row[1].([]byte), format.All, func(k *format.Record) error {
			ops = append(ops, k)
			return nil
		}))
	}
	require.True(t, slices.ContainsFunc(ops, func(k *format.Record) bool { return k.Op.Handle == handle }))
	return first, ops
}

// putRow writes a row in the place of the present one.
func putRow(t *testing.T, path, table string, row ...any) {
	t.Helper()
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(row)), ", ")
	_, err := anotherProcess(t, path).ExecContext(t.Context(), "INSERT OR REPLACE INTO "+table+" VALUES ("+marks+")", row...)
	require.NoError(t, err)
}

func pack(t *testing.T, path string, first int64, ops ...*format.Record) {
	t.Helper()
	putRow(t, path, "onceward_blocks", first, new(format.BlockEncoder).Encode(first, ops))
}

// sealBlock seals a block that no encoder makes.
func sealBlock(first int64, data []byte) []byte {
	sum := crc32.Update(format.Sum(data), crc32.MakeTable(crc32.Castagnoli), binary.AppendVarint(nil, first))
	return binary.LittleEndian.AppendUint32(data, sum)
}

// Verify compares the records of segments, blocks and answers with the operations themselves, in all segments.
func TestVerifyComparesSegments(t *testing.T) {
	t.Parallel()
	sound, handles := segmented(t)
	is := func(handle int64, what string) string { return fmt.Sprintf(`operation %d "%s`, handle, what) }
	of := func(k *format.Record, what string) string { return is(k.Op.Handle, k.Op.ID+`"`+what) }
	const (
		missing = `": it is there, or was removed`
		place   = ": it is where it is looked for in its block"
	)
	statement := func(format string, args ...any) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { alter(t, path, fmt.Sprintf(format, args...)) }
	}
	first, ops := blockOf(t, sound, 1500)
	second, next := blockOf(t, sound, ops[len(ops)-1].Op.Handle+1)
	require.Len(t, ops, 8)
	_, fresh := blockOf(t, sound, 2048)
	lost := func(handle int64) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			first, ops := blockOf(t, sound, handle)
			pack(t, path, first, slices.DeleteFunc(ops, func(k *format.Record) bool { return k.Op.Handle == handle })...)
		}
	}
	forgets := func(handle int64, which int) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			row := rowsIn(t, path, format.SegmentColumns, fmt.Sprint("onceward_segments WHERE first = ", format.SegmentOf(handle)))[0]
			segment, hashes, err := format.ReadSegment(row)
			require.NoError(t, err)
			kept, seen := []byte(nil), 0
			for entry := range slices.Chunk(hashes, format.EntrySize) {
				if int64(binary.LittleEndian.Uint16(entry[4:])) == handle-segment.First {
					if seen++; seen-1 == which {
						continue
					}
				}
				kept = append(kept, entry...)
			}
			require.Greater(t, seen, which)
			putRow(t, path, "onceward_segments", row[0], row[1], row[2], segment.Seal(kept))
		}
	}
	var removed []string
	for handle := range int64(27) {
		removed = append(removed, is(1024+handle, missing))
	}
	const latest = 3104
	for name, row := range map[string]struct {
		damage func(t *testing.T, path string)
		says   []string
	}{
		"as it was": {func(*testing.T, string) {}, nil},
		"a block that begins behind its first operation": {func(t *testing.T, path string) {
			alter(t, path, fmt.Sprint("DELETE FROM onceward_blocks WHERE first = ", first))
			pack(t, path, first+1, ops...)
		}, []string{of(ops[0], place)}},
		"an operation in the block before": {func(t *testing.T, path string) {
			pack(t, path, first, append(slices.Clone(ops), next[0])...)
			pack(t, path, second, next[1:]...)
		}, []string{of(next[0], place)}},
		"an operation in two blocks": {func(t *testing.T, path string) {
			pack(t, path, first, append(slices.Clone(ops), next[0])...)
		}, []string{of(next[0], place), of(next[0], ": it is in one place")}},
		"an operation in a block of the segment before": {func(t *testing.T, path string) {
			first, ops := blockOf(t, path, 2047)
			pack(t, path, first, append(ops, fresh[0])...)
			pack(t, path, 2048, fresh[1:]...)
		}, []string{of(fresh[0], place), is(2048, missing)}},
		"operations in another order": {func(t *testing.T, path string) {
			pack(t, path, first, append([]*format.Record{ops[1], ops[0]}, ops[2:]...)...)
		}, []string{of(ops[0], place)}},
		"an operation that is listed as another": {func(t *testing.T, path string) {
			k := *ops[0]
			listed := slices.Clone(new(format.BlockEncoder).Encode(first, []*format.Record{&k}))
			k.Op.Handle++
			data := slices.Clone(new(format.BlockEncoder).Encode(first, []*format.Record{&k}))
			copy(data, listed[:4]) // the format, the number of operations, and the handle
			putRow(t, path, "onceward_blocks", first, sealBlock(first, data[:len(data)-format.SumSize]))
			pack(t, path, first+2, ops[2:]...)
		}, []string{is(first, missing), is(first+1, ops[0].Op.ID+`"`+place), is(first+1, ops[0].Op.ID+`": its segment finds it by its name`)}},
		"an operation in a block that was not delivered": {func(t *testing.T, path string) {
			k := *ops[3]
			k.Op.Delivered = false
			pack(t, path, first, append([]*format.Record{ops[0], ops[1], ops[2], &k}, ops[4:]...)...)
		}, []string{of(ops[3], ": an operation in a block is completed and delivered")}},
		"the last of a segment lost":           {lost(2047), []string{is(2047, missing)}},
		"the first of a segment lost":          {lost(2048), []string{is(2048, missing)}},
		"the last that is folded lost":         {lost(latest), []string{is(latest, missing)}},
		"an answer of an operation in a block": {statement("INSERT INTO onceward_answers SELECT %d, answer, body FROM onceward_answers LIMIT 1", first), []string{is(first, `": its answer is of an operation that has a row`)}},
		"a name that its segment forgot":       {forgets(handles["carried"], 0), []string{is(handles["carried"], `carried": its segment finds it by its name`)}},
		"a second name that it forgot":         {forgets(handles["carried"], 1), []string{is(handles["carried"], `carried": its segment finds it by its name`)}},
		"a name that another forgot":           {forgets(2049, 0), []string{of(fresh[1], ": its segment finds it by its name")}},
		"a removal that is forgotten":          {statement("DELETE FROM onceward_removed WHERE first = 1024"), removed},
		"a damaged record of removals":         {statement("UPDATE onceward_removed SET bits = zeroblob(length(bits)) WHERE first = 1024"), []string{"the file: it can be read"}},
		"the second segment gone":              {statement("DELETE FROM onceward_segments WHERE first = 2048"), []string{"it is in a segment that is there"}},
		"a segment that is sealed early": {statement("INSERT INTO onceward_segments VALUES (3072, 0, 0, sealed_segment(x'00000000', 3072, 0, 0))"),
			[]string{"the file: a segment is sealed once its last operation was begun: 3072"}},
		"two operations with one second name": {statement(`DELETE FROM onceward_operations WHERE id = 'pending'; INSERT INTO onceward_operations SELECT %d, scope, parent, 'pending', naming, 1, provider, state, holder, wake_at,
			settled_at, delivered, tombstone, facts, request, request_body FROM onceward_operations WHERE id = 'carried pending'`, handles["pending"]), []string{is(handles["pending"], ""), is(handles["carried pending"], `": no other operation has its name: operation `+fmt.Sprint(handles["pending"]))}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			copyFile(t, sound, path)
			copyFile(t, sound+"-sidecar", path+"-sidecar")
			row.damage(t, path)
			saysThat(t, verify(t, open(t, path)), row.says)
		})
	}
}

// Verify looks for the first operation of a segment there, even if it is the last one that is not in the log alone.
func TestVerifyWhereASegmentBegins(t *testing.T) {
	path, j, s := joined(t)
	sideBySide(sqlite.SegmentSize-1, func(i int) {
		_, err := j.Apply(t.Context(), begin(fmt.Sprint(i), s))
		assert.NoError(t, err)
	})
	require.Empty(t, verify(t, j), "the segment before has all that it can have")
	_, err := j.Apply(t.Context(), begin("the first", s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	require.Empty(t, verify(t, j))
	alter(t, path, fmt.Sprint("DELETE FROM onceward_operations WHERE handle = ", sqlite.SegmentSize))
	says := verify(t, j)
	assert.Contains(t, says, `operation 1024 "": it is there, or was removed`)
}

// If segments, blocks or removed operations can't be read, Verify returns an error instead of a finding.
func TestBrokenStatementBesideSegments(t *testing.T) {
	b := newBreaker(t)
	path, _ := segmented(t)
	j := open(t, path)
	sqlite.Preloaded(j)
	for n, failed := 0, true; failed; n++ {
		b.arm(n, false)
		_, err := j.Verify(t.Context())
		broke := b.disarm()
		failed = broke != ""
		assert.Equal(t, failed, err != nil, "statement %d: %s", n, broke)
	}
	assert.Empty(t, verify(t, j))
}

// Verify reports an unreadable body, and nothing else of its operation.
func TestVerifyNamesADamagedBody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	parked(t, path, "a", "b")
	alter(t, path, "UPDATE onceward_operations SET request_body = x'00' WHERE id = 'a'")
	assert.Equal(t, []string{`operation 1 "": it can be read`}, verify(t, open(t, path)))
}
