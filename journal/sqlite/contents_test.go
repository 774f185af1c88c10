//go:build unix

package sqlite_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite"
)

// A list by scope or provider reads no segment without matches, in either order. It reads a segment of an older
// release, whose contents are unknown.
func TestContentsSpareSegments(t *testing.T) {
	t.Parallel()
	const many = 4*format.SegmentSize + 100
	path, j, s := joined(t)
	rare := int64(2 * format.SegmentSize) // the first of its segment
	var changes journal.Event             // begun under another provider than later
	for n := int64(1); n <= many; n++ {
		ev := begin(fmt.Sprint("op-", n), s)
		switch n {
		case rare:
			ev.Ref.Scope, ev.Intent.Provider = "tenant-9", "rare"
		case 7:
			changes = ev
		}
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		done := complete(result.Operation, s)
		done.Delivered = true
		if n == 7 {
			done.Kind, done.Answer, done.Unsent, done.Due, done.Delivered = journal.EventPark, nil, true, time.Now(), false
		}
		_, err = j.Apply(t.Context(), done)
		require.NoError(t, err)
	}
	changes.Intent.Provider = "renamed"
	changes.At = time.Now().Add(time.Second)
	again, err := j.Apply(t.Context(), changes)
	require.NoError(t, err)
	require.Equal(t, journal.Execute, again.Decision)
	require.NoError(t, sqlite.Fold(j))
	require.Empty(t, verify(t, j))

	scope, nobodys := "tenant-9", "tenant-10"
	lists := func() {
		t.Helper()
		for _, newest := range []bool{false, true} {
			assert.Equal(t, []int64{rare}, handlesOf(t, j, journal.Filter{Scope: &scope, Newest: newest}))
			assert.Equal(t, []int64{rare}, handlesOf(t, j, journal.Filter{Scope: &scope, Provider: "rare", Newest: newest, Limit: 1}))
			assert.Equal(t, []int64{7}, handlesOf(t, j, journal.Filter{Provider: "renamed", Newest: newest}))
			assert.Empty(t, handlesOf(t, j, journal.Filter{Provider: "none", Newest: newest}))
			assert.Empty(t, handlesOf(t, j, journal.Filter{Scope: &nobodys, Newest: newest}))
			assert.Empty(t, handlesOf(t, j, journal.Filter{Scope: &scope, Provider: "renamed", Newest: newest}))
			assert.Empty(t, handlesOf(t, j, journal.Filter{Provider: "rare", After: rare, Newest: newest}))
			assert.Equal(t, []int64{rare}, handlesOf(t, j, journal.Filter{Provider: "rare", Before: rare + 1, Newest: newest}))
		}
	}
	lists()
	whole := handlesOf(t, j, journal.Filter{Provider: "ledger"})
	assert.Len(t, whole, many-2)

	alter(t, path, "CREATE TEMP TABLE kept AS SELECT * FROM onceward_contents; DELETE FROM onceward_contents; "+
		"INSERT INTO onceward_contents SELECT * FROM kept WHERE first <> 2048")
	lists()
	alter(t, path, "UPDATE onceward_blocks SET data = x'00' WHERE first BETWEEN 1024 AND 2047 OR first BETWEEN 3072 AND 4095")
	lists()
	var damaged error
	for _, err := range j.List(t.Context(), journal.Filter{Provider: "ledger"}) {
		damaged = err
	}
	require.ErrorIs(t, damaged, format.ErrDamaged, "these are not read by the others")
}

// Verify knows the contents of a segment, and names a record that leaves some of them out.
func TestContentsAreVerified(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	for n := range format.SegmentSize - 1 { // up to its last
		result, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", n), s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(result.Operation, s))
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	require.Empty(t, verify(t, j))
	all, err := format.DecodeContents(0, one[[]byte](t, anotherProcess(t, path), "SELECT hashes FROM onceward_contents"))
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, lacking := range []format.Contents{{}, all[:1:1], all[1:]} {
		alter(t, path, fmt.Sprintf("UPDATE onceward_contents SET hashes = x'%x'", lacking.Seal(0)))
		says := verify(t, j)
		require.NotEmpty(t, says)
		assert.Contains(t, says[0], "its segment knows its scope and its provider")
	}
	alter(t, path, "UPDATE onceward_contents SET hashes = x'0102030405'")
	says := verify(t, j)
	require.Len(t, says, 1)
	assert.Contains(t, says[0], "the contents of the segment that begins with operation 0 are as they were written")
	assert.Len(t, handlesOf(t, j, journal.Filter{Provider: "ledger"}), format.SegmentSize-1, "what is not believed is not gone by")
}

// Lists and Verify do not rely on the contents that are recorded of an unsealed segment.
func TestContentsOfAnUnsealedSegment(t *testing.T) {
	_, j, s := joined(t)
	cancelled(t, j, begin("invoice-1", s), s)
	cancelled(t, j, begin("invoice-2", s), s)
	require.NoError(t, sqlite.Fold(j))
	again := begin("invoice-1", s)
	again.Intent.Provider = "another"
	result, err := j.Apply(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, journal.Execute, result.Decision)
	require.NoError(t, sqlite.Fold(j))
	assert.Empty(t, verify(t, j))
	assert.Equal(t, []int64{1}, handlesOf(t, j, journal.Filter{Provider: "another"}))
	assert.Equal(t, []int64{2}, handlesOf(t, j, journal.Filter{Provider: "ledger"}))
}

// A damaged row does not stop a begin under another provider, nor the begin of the segment's last operation. It hides
// nothing.
func TestDamagedContentsBlockNoBegin(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	unsent := func(ev journal.Event) {
		t.Helper()
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, journal.Execute, result.Decision)
		park := complete(result.Operation, s)
		park.Kind, park.Answer, park.Unsent, park.Due, park.Delivered = journal.EventPark, nil, true, time.Now(), false
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	changed := func(provider string) journal.Event {
		ev := begin("op-1", s)
		ev.Intent.Provider, ev.At = provider, time.Now().Add(time.Second)
		return ev
	}
	unsent(begin("op-1", s))
	unsent(changed("second"))
	require.NoError(t, sqlite.Fold(j))
	require.Empty(t, verify(t, j), "before it is sealed it only has what operations have become")
	alter(t, path, "UPDATE onceward_contents SET hashes = x'0102030405'")
	unsent(changed("third"))
	for n := 2; n <= format.SegmentSize; n++ {
		result, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", n), s))
		require.NoError(t, err, n)
		_, err = j.Apply(t.Context(), complete(result.Operation, s))
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	unsent(changed("fourth"))
	assert.Len(t, handlesOf(t, j, journal.Filter{Provider: "ledger"}), format.SegmentSize-1)
	assert.Equal(t, []int64{1}, handlesOf(t, j, journal.Filter{Provider: "fourth"}))
	says := verify(t, j)
	require.Len(t, says, 1)
	assert.Contains(t, says[0], "the contents of the segment that begins with operation 0 are as they were written")
}

// If nothing is left of a segment, only its row stays.
func TestContentsAreReapedWithTheirSegment(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	old := time.Now().Add(-1000 * time.Hour)
	for n := range format.SegmentSize + 10 {
		ev := generate(fmt.Sprint("key-", n), s)
		ev.At = old
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		done := complete(result.Operation, s)
		done.At = old
		_, err = j.Apply(t.Context(), done)
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	rows := func() (n int) {
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		defer db.Close()
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM onceward_contents").Scan(&n))
		return n
	}
	require.Equal(t, 1, rows())
	for left := format.SegmentSize; left > 0; {
		n, err := reap(t, j, 5000)
		require.NoError(t, err)
		require.NotZero(t, n)
		left -= n
	}
	assert.Zero(t, rows())
	assert.Empty(t, verify(t, j))
}

// If an older release has sealed a segment, its contents are unknown. Lists still read it when one of its operations
// changes.
func TestContentsOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	parks := func(ev journal.Event) {
		t.Helper()
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, journal.Execute, result.Decision)
		park := complete(result.Operation, s)
		park.Kind, park.Answer, park.Unsent, park.Due, park.Delivered = journal.EventPark, nil, true, time.Now(), false
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	parks(begin("op-1", s))
	for n := 2; n < format.SegmentSize; n++ { // up to the segment's last
		result, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", n), s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(result.Operation, s))
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "DELETE FROM onceward_contents")
	again := begin("op-1", s)
	again.Intent.Provider, again.At = "renamed", time.Now().Add(time.Second)
	parks(again)
	assert.Len(t, handlesOf(t, j, journal.Filter{Provider: "ledger"}), format.SegmentSize-2)
	assert.Equal(t, []int64{1}, handlesOf(t, j, journal.Filter{Provider: "renamed"}))
}

// A list whose matches fill more than a page in each of some segments has all of them, in either order.
func TestContentsOfMoreThanAPage(t *testing.T) {
	t.Parallel()
	_, j, s := joined(t)
	var want []int64
	for n := range 3 * format.SegmentSize {
		ev := begin(fmt.Sprint("op-", n), s)
		if n/format.SegmentSize != 1 && n%2 == 0 {
			ev.Intent.Provider = "many"
			want = append(want, int64(n)+1)
		}
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(result.Operation, s))
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	for _, newest := range []bool{false, true} {
		assert.Equal(t, want, handlesOf(t, j, journal.Filter{Provider: "many", Newest: newest}))
		slices.Reverse(want)
	}
}
