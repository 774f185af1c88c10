//go:build unix

package rows_test

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

// many adds completed operations to a journal with everything, and frees pages. It returns their names.
func many(t *testing.T, path string, n int) (names []string) {
	t.Helper()
	j, s := joined(t, path)
	do := func(ev machine.Event) {
		result, err := j.Apply(t.Context(), ev)
		if assert.NoError(t, err) {
			done := complete(result.Operation, s)
			done.Delivered = true
			_, err = j.Apply(t.Context(), done)
			assert.NoError(t, err)
		}
	}
	var wg sync.WaitGroup
	for i := range n {
		name := fmt.Sprint("invoice-", i)
		names = append(names, name)
		wg.Go(func() { do(begin(name, s)) })
	}
	wg.Wait()
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	execute(t, path, "CREATE TABLE freed (b); INSERT INTO freed VALUES (zeroblob(100000)); DROP TABLE freed")
	return names
}

// page is a page of a file. Its kind is a table's or an index's name, and whether it is a leaf; or free.
type page struct {
	number, cells int
	of, kind      string
}

func pagesOf(t *testing.T, path string) (size int, kinds map[string][]page) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	defer db.Close()
	var count int
	require.NoError(t, db.QueryRow("SELECT page_size, page_count FROM pragma_page_size, pragma_page_count").Scan(&size, &count))
	used, err := db.Query("SELECT pageno, name, pagetype, ncell FROM dbstat")
	require.NoError(t, err)
	defer used.Close()
	kinds, seen := make(map[string][]page), make(map[int]bool)
	for used.Next() {
		var p page
		require.NoError(t, used.Scan(&p.number, &p.of, &p.kind, &p.cells))
		p.kind = p.of + ", " + p.kind
		kinds[p.kind], seen[p.number] = append(kinds[p.kind], p), true
	}
	require.NoError(t, used.Err())
	for n := 1; n <= count; n++ {
		if !seen[n] {
			kinds["free"] = append(kinds["free"], page{number: n, of: "free", kind: "free"})
		}
	}
	return size, kinds
}

// A flipped bit anywhere in the file gives no wrong answer, and stops no more than its page. A name executes again only if
// the bit is in the index of names or in the list of free pages, and Verify finds it.
func TestBitThatFlips(t *testing.T) {
	path := everything(t)
	names := many(t, path, 400)
	require.Empty(t, verify(t, openToRead(t, path)))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	size, kinds := pagesOf(t, path)
	for _, kind := range []string{"free", "onceward_head, leaf", "onceward_rows, internal", "onceward_names, internal", "onceward_rows_settled, leaf", "onceward_requests, leaf"} {
		require.NotEmpty(t, kinds[kind], kind)
	}
	random := rand.New(rand.NewPCG(uint64(soak.Seed(t, 1)), 0))
	dir := t.TempDir()
	again, noticed := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for n := range soak.Times(4, 30) {
			if !sample.Takes(n, 4) && !soak.On() {
				continue
			}
			p := kinds[kind][random.IntN(len(kinds[kind]))]
			damaged := slices.Clone(whole)
			of := damaged[(p.number-1)*size : p.number*size]
			at := random.IntN(size)
			for try := 0; of[at] == 0 && try < size; try++ { // most of what is not used is zero
				at = (at + 1) % size
			}
			of[at] ^= 1 << random.IntN(8)
			to := filepath.Join(dir, fmt.Sprintf("%d-%d.db", p.number, n))
			require.NoError(t, os.WriteFile(to, damaged, 0o600))
			copyFile(t, path+"-sidecar", to+"-sidecar")
			f := flip{path: to, names: names, about: fmt.Sprintf("byte %d of page %d (%s)", at, p.number, kind)}
			f.look(t)
			again += len(f.again)
			if f.failed+len(f.again) > 0 {
				noticed++
				assert.NotEmpty(t, f.found, f.about)
			}
			if len(f.again) > 0 {
				assert.Contains(t, []string{"onceward_names", "free"}, p.of, f.about)
			}
			if strings.HasSuffix(kind, "leaf") && p.of != "onceward_head" && p.of != "sqlite_schema" {
				assert.LessOrEqual(t, f.failed+len(f.again), p.cells, f.about)
			}
			for _, suffix := range []string{"", "-sidecar", "-wal", "-shm"} {
				_ = os.Remove(to + suffix)
			}
		}
	}
	assert.Positive(t, noticed)
	t.Logf("%d kinds of pages; %d flips changed answers, and %d names were executed again", len(kinds), noticed, again)
}

// A page whose rows are out of order ends a list and Verify. They don't read it again and again.
func TestPageWhoseRowsAreOutOfOrder(t *testing.T) {
	path := everything(t)
	many(t, path, 400)
	size, kinds := pagesOf(t, path)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	pages := kinds["onceward_rows, leaf"]
	p := pages[len(pages)-1]
	of := content[(p.number-1)*size : p.number*size]
	last := of[binary.BigEndian.Uint16(of[8+2*(p.cells-1):]):] // https://sqlite.org/fileformat2.html, "B-tree Pages"
	_, payload := sqliteVarint(last)
	handle, n := sqliteVarint(last[payload:])
	require.Greater(t, handle, 256)
	require.Equal(t, 2, n)
	last[payload] = 0x80 // the handle is below 128 now
	require.NoError(t, os.WriteFile(path, content, 0o600))

	j := openToRead(t, path)
	assert.ErrorIs(t, listed(t, j), format.ErrDamaged)
	assert.NotEmpty(t, verifyDamaged(t, j))
	d, err := rows.Open(path, rows.Options{})
	require.NoError(t, err)
	open, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	require.NoError(t, err)
	defer open.Close()
	assert.ErrorIs(t, listed(t, open), format.ErrDamaged)
}

// A page that SQLite can't read fails the requests that need it. Other requests of the same transaction are answered.
func TestPageThatCanNotBeRead(t *testing.T) {
	sound := everything(t)
	names := many(t, sound, 400)
	size, kinds := pagesOf(t, sound)
	for _, table := range []string{"onceward_rows", "onceward_names", "onceward_answers"} {
		t.Run(table, func(t *testing.T) {
			path := copied(t, sound)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			content[(kinds[table+", leaf"][0].number-1)*size] = 0 // no kind of page
			require.NoError(t, os.WriteFile(path, content, 0o600))

			j, s := joined(t, path)
			alone := make(map[string]bool)
			for _, name := range names {
				_, err := j.Apply(t.Context(), begin(name, s))
				alone[name] = err == nil
			}
			var together sync.Map
			var wg sync.WaitGroup
			release := j.Hold()
			for _, name := range names {
				wg.Go(func() {
					_, err := j.Apply(t.Context(), begin(name, s))
					together.Store(name, err == nil)
				})
			}
			for j.Queued() < len(names) {
				runtime.Gosched()
			}
			release()
			wg.Wait()
			answered := 0
			for _, name := range names {
				is, _ := together.Load(name)
				assert.Equal(t, alone[name], is, name)
				if alone[name] {
					answered++
				}
			}
			assert.Positive(t, answered)
			assert.Less(t, answered, len(names))
		})
	}
}

func listed(t *testing.T, j *rowstore.Store) error {
	for _, err := range j.List(t.Context(), journal.Filter{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// sqliteVarint reads a number of at most two bytes, and returns how many it has.
func sqliteVarint(b []byte) (value, size int) {
	if b[0] < 0x80 {
		return int(b[0]), 1
	}
	return int(b[0]&0x7f)<<7 | int(b[1]), 2
}

// flip is a file with a flipped bit.
type flip struct {
	path, about string
	names       []string

	found  []string // by Verify
	failed int      // names with an error
	again  []string // names that execute again
}

func (f *flip) look(t *testing.T) {
	t.Helper()
	looking, err := rows.OpenReadOnly(f.path)
	if err != nil {
		return
	}
	r, err := rowstore.OpenToRead(t.Context(), looking, nil, errToRead)
	if err != nil {
		require.NoError(t, looking.Close())
		return
	}
	f.found = verifyDamaged(t, r)
	require.NoError(t, r.Close())
	d, err := rows.Open(f.path, rows.Options{})
	if err != nil {
		return
	}
	j, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	if err != nil {
		require.NoError(t, d.Close())
		return
	}
	defer func() { _ = j.Close() }()
	var lost []string
	for _, name := range f.names {
		op, err := j.Get(t.Context(), journal.Ref{ID: name})
		switch {
		case err == nil:
			assert.Equal(t, "paid "+name, string(op.Answer.Body), f.about)
		case errors.Is(err, journal.ErrNotFound):
			lost = append(lost, name)
		default:
			f.failed++
		}
	}
	s, err := j.Join(t.Context())
	if err != nil {
		return
	}
	for _, name := range lost {
		if result, err := j.Apply(t.Context(), begin(name, s)); err != nil {
			f.failed++
		} else if result.Decision == machine.Execute {
			f.again = append(f.again, name)
		}
	}
}

// verifyDamaged returns what Verify finds. An error is a finding, too.
func verifyDamaged(t *testing.T, j *rowstore.Store) []string {
	t.Helper()
	found, err := j.Verify(t.Context())
	if err != nil {
		return []string{err.Error()}
	}
	var says []string
	for _, v := range found {
		says = append(says, v.String())
	}
	return says
}

// A changed value in the head, or a name that leads elsewhere, is not believed: no completed name executes again.
func TestWhatDecidesIsNotBelieved(t *testing.T) {
	sound := leave(t)
	j, err := sql.Open("sqlite", "file:"+sound)
	require.NoError(t, err)
	defer j.Close()
	damages := map[string]string{
		"a name of another operation": "INSERT INTO onceward_rows SELECT 99, state, holder, wake_at, settled_at, told, reaped, provider, record FROM onceward_rows; UPDATE onceward_names SET handle = 99",
		"a name of no operation":      "UPDATE onceward_names SET handle = 99",
		"no rows":                     "DELETE FROM onceward_rows",
		"no head":                     "DELETE FROM onceward_head",
	}
	columns, err := j.Query("SELECT name, type FROM pragma_table_info('onceward_head') WHERE name <> 'one'")
	require.NoError(t, err)
	defer columns.Close()
	for columns.Next() {
		var name, kind string
		require.NoError(t, columns.Scan(&name, &kind))
		damages["the head's "+name] = map[string]string{
			"INTEGER": fmt.Sprintf("UPDATE onceward_head SET %[1]s = %[1]s + 1", name),
			"TEXT":    fmt.Sprintf("UPDATE onceward_head SET %[1]s = 'x' || substr(%[1]s, 2)", name),
			"BLOB":    fmt.Sprintf("UPDATE onceward_head SET %[1]s = CAST(substr(%[1]s, 1, 5) || 'x' || substr(%[1]s, 7) AS BLOB)", name),
		}[kind]
	}
	require.NoError(t, columns.Err())
	require.Greater(t, len(damages), 12)
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			path := copied(t, sound)
			execute(t, path, damage)
			d, err := rows.Open(path, rows.Options{})
			if err != nil {
				return
			}
			j, err := rowstore.Open(t.Context(), d, rowstore.Options{})
			if err != nil {
				require.NoError(t, d.Close())
				return
			}
			defer j.Close()
			assert.NotEmpty(t, verifyDamaged(t, j))
			s, err := j.Join(t.Context())
			if err != nil {
				return
			}
			_, err = j.Apply(t.Context(), begin("invoice-1", s))
			assert.ErrorIs(t, err, format.ErrDamaged)
		})
	}
}
