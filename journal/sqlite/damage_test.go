//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// failing is a fault: the chosen calls fail with code.
func failing(code int32, chosen func(what diskDid, file string) bool) *func(diskDid, string) int32 {
	f := func(what diskDid, file string) int32 {
		if chosen(what, file) {
			return code
		}
		return sqlite3.SQLITE_OK
	}
	return &f
}

// inWAL chooses writes to the WAL. A failed sync of the checkpointer would be reported to the next commit, after the
// fault.
func inWAL(what diskDid, file string) bool { return what == wrote && file == "-wal" }

// A fault fails closed with a clear error and loses nothing once it is gone.
func TestFaultFailsClosed(t *testing.T) {
	t.Parallel()
	third := oneIn(3)
	for name, row := range map[string]struct {
		fault *func(diskDid, string) int32
		says  string
	}{
		"the disk is full":              {failing(sqlite3.SQLITE_FULL, inWAL), "the disk is full; free some space"},
		"writes fail":                   {failing(sqlite3.SQLITE_IOERR_WRITE, inWAL), "the disk reports an error"},
		"syncs fail":                    {failing(sqlite3.SQLITE_IOERR_FSYNC, func(what diskDid, _ string) bool { return what == synced }), "the disk reports an error"},
		"it was remounted read-only":    {failing(sqlite3.SQLITE_READONLY, inWAL), "it can't be written; check the permissions"},
		"some of its writes fail":       {failing(sqlite3.SQLITE_IOERR_WRITE, func(diskDid, string) bool { return third() }), "the disk reports an error"},
		"some of its writes do not fit": {failing(sqlite3.SQLITE_FULL, func(diskDid, string) bool { return third() }), "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			d := record(t, filepath.Join(t.TempDir(), "journal.db"))
			j := open(t, d.path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			var mu sync.Mutex
			known := map[string]promise{}
			l := &life{journal: j, session: s, name: "op", told: func(id string, p promise) {
				mu.Lock()
				defer mu.Unlock()
				known[id] = p
			}}
			l.live(t.Context(), rand.New(rand.NewPCG(1, 1)), 8, 200)
			before := len(known)
			d.fault.Store(row.fault)
			failed := error(nil)
			for n := range 1000 {
				id := fmt.Sprint("meanwhile-", n)
				ev := begin(id, s)
				ev.Intent.Request.Body = bodyOf(id)
				_, err := j.Apply(t.Context(), ev)
				if err == nil {
					known[id] = promise{}
					continue
				}
				if failed = err; n > 20 {
					break
				}
			}
			require.Error(t, failed)
			assert.ErrorContains(t, failed, row.says)
			assert.ErrorContains(t, failed, d.path)
			if !strings.HasPrefix(name, "some ") {
				assert.Len(t, known, before, "what could not be written was not acknowledged")
			}
			for id := range known {
				_, err := j.Get(t.Context(), journal.Ref{ID: id})
				require.NoError(t, err, "it can be read meanwhile")
				break
			}
			d.fault.Store(nil)
			hears(t.Context(), j, s)
			goOn(t, j, "after")
			if name == "the disk is full" || soak.On() { // after the others, the same would fail
				l.name = "again"
				sixtieth := oneIn(60)
				d.fault.Store(failing(sqlite3.SQLITE_IOERR_WRITE, func(_ diskDid, file string) bool { return file == "-wal" && sixtieth() }))
				l.live(t.Context(), rand.New(rand.NewPCG(1, 2)), 8, soak.Times(450, 1600))
				d.fault.Store(nil)
				hears(t.Context(), j, s)
			}
			require.NoError(t, j.Close())
			require.NoError(t, inspect(t.Context(), d.path, known))
		})
	}
}

// If a journal is no longer writable, its errors say so.
func TestJournalThatMayNotBeWritten(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // otherwise user nobody can't reach it
	path := filepath.Join(dir, "journal.db")
	leave(t, path)
	modes := map[string]os.FileMode{path: 0o400, path + "-sidecar": 0o400, dir: 0o500}
	if os.Getuid() == 0 {
		modes = map[string]os.FileMode{path: 0o604, path + "-sidecar": 0o604, dir: 0o705}
	}
	for name, mode := range modes {
		require.NoError(t, os.Chmod(name, mode))
	}
	t.Run("read-only", func(t *testing.T) {
		t.Cleanup(asNobody(t))
		j, err := sqlite.Open(path, sqlite.Options{})
		if err == nil {
			t.Cleanup(func() { _ = j.Close() })
			_, err = j.Join(t.Context())
		}
		require.Error(t, err)
		require.ErrorIs(t, err, os.ErrPermission)
		assert.ErrorContains(t, err, path)
	})
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Chmod(path+"-sidecar", 0o600))
	goOn(t, open(t, path), "after")
}

// The journal notices that its open file was removed or replaced.
func TestFileRemovedOrReplacedWhileOpen(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, name string) { require.NoError(t, os.Remove(name)) }
	replace := func(t *testing.T, name string, content []byte) {
		require.NoError(t, os.WriteFile(name+".new", content, 0o600))
		require.NoError(t, os.Rename(name+".new", name))
	}
	for name, change := range map[string]func(t *testing.T, path string, older []byte){
		"removed":                   func(t *testing.T, path string, _ []byte) { remove(t, path) },
		"replaced by an older copy": func(t *testing.T, path string, older []byte) { replace(t, path, older) },
		"replaced by nothing":       func(t *testing.T, path string, _ []byte) { replace(t, path, nil) },
		"its WAL removed":           func(t *testing.T, path string, _ []byte) { remove(t, path+"-wal") },
		"its WAL replaced":          func(t *testing.T, path string, _ []byte) { replace(t, path+"-wal", nil) },
		"its -shm removed":          func(t *testing.T, path string, _ []byte) { remove(t, path+"-shm") },
		"its -shm replaced":         func(t *testing.T, path string, _ []byte) { replace(t, path+"-shm", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			leave(t, path)
			older, err := os.ReadFile(path)
			require.NoError(t, err)
			j := open(t, path)
			goOn(t, j, "later")
			require.NoError(t, sqlite.Mark(j))
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			change(t, path, older)

			_, err = j.Apply(t.Context(), begin("meanwhile", s))
			require.ErrorIs(t, err, journal.ErrRestored, "nobody would find it again")
			assert.ErrorContains(t, err, "removed or replaced")
			assert.ErrorContains(t, err, path)
			_ = j.Close()

			// SQLite may have saved it, by moving the WAL into the file or by keeping the WAL.
			j, err = sqlite.Open(path, sqlite.Options{})
			if err == nil {
				t.Cleanup(func() { _ = j.Close() })
				_, err = j.Join(t.Context())
			}
			if err != nil {
				require.ErrorIs(t, err, journal.ErrRestored)
				return
			}
			for _, id := range []string{"pending", "cancelled", "completed", "later"} {
				_, err := j.Get(t.Context(), journal.Ref{ID: id})
				require.NoError(t, err, "nothing is lost unseen: %s", id)
			}
		})
	}
}

func TestAFileThatIsMovedAwayAndPutBackGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Rename(path, path+".away"))
	_, err = j.Apply(t.Context(), begin("meanwhile", s))
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, os.Rename(path+".away", path))
	goOn(t, j, "after")
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	goOn(t, open(t, path), "after it was opened again")
}

// view is everything that can be read of a journal, and then be claimed.
type view struct {
	operations map[string]journal.Operation
	listed     map[string]journal.Operation
	flows      map[string]journal.Flow
	flowsList  map[string]journal.Flow
	claimed    map[string]machine.Decision
	taken      map[string]machine.Decision
}

// viewOf reads operations and flows with these names, or returns the first error.
func viewOf(ctx context.Context, j *sqlite.Journal, operations, flows []string) (v view, err error) {
	v = view{make(map[string]journal.Operation), make(map[string]journal.Operation), make(map[string]journal.Flow),
		make(map[string]journal.Flow), make(map[string]machine.Decision), make(map[string]machine.Decision)}
	for op, err := range j.List(ctx, journal.Filter{}) {
		if err != nil {
			return v, err
		}
		v.listed[fmt.Sprint(op.Handle)] = op
	}
	for f, err := range j.ListFlows(ctx, journal.FlowFilter{}) {
		if err != nil {
			return v, err
		}
		v.flowsList[fmt.Sprint(f.Handle)] = f
	}
	for _, id := range operations {
		if v.operations[id], err = j.Get(ctx, journal.Ref{ID: id}); err != nil {
			return v, err
		}
	}
	for _, id := range flows {
		if v.flows[id], err = j.GetFlow(ctx, journal.Ref{ID: id}); err != nil {
			return v, err
		}
	}
	s, err := j.Join(ctx)
	if err != nil {
		return v, err
	}
	ev := claim(s)
	ev.At = ev.At.Add(2 * time.Hour)
	results, err := j.Claim(ctx, ev, 1000)
	for _, r := range results {
		v.claimed[r.Operation.ID] = r.Decision
	}
	if err != nil {
		return v, err
	}
	flowResults, err := j.ClaimFlows(ctx, machine.FlowEvent{
		Kind: machine.FlowEventClaim, At: ev.At, Session: s.ID(), Functions: []journal.FlowFunction{rideFunction},
	}, 1000)
	for _, r := range flowResults {
		v.taken[r.Flow.ID] = r.Decision
	}
	return v, err
}

// A bit flips in the rows of open operations or flows. It is noticed when it is read, is named by Verify, or changes
// nothing that can be read or claimed.
func TestBitThatFlipsInARow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	var operations, flows []string
	for n := range 40 {
		id := fmt.Sprint("operation-", n)
		operations = append(operations, id)
		begun, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		ev := complete(begun.Operation, s)
		switch n % 5 {
		case 0:
			continue // in flight
		case 1:
			ev.Kind, ev.Answer, ev.Open, ev.Due = machine.EventPark, nil, true, time.Now().Add(time.Duration(n)*10*time.Minute)
		case 2:
			ev.Kind, ev.Answer, ev.Unsent = machine.EventCancel, nil, true
		default:
			ev.Delivered = false
		}
		_, err = j.Apply(t.Context(), ev)
		require.NoError(t, err)
	}
	for n := range 12 {
		f := beginFlow(t, j, s, fmt.Sprint("flow-", n))
		flows = append(flows, f.ID)
		for seq := range 3 {
			recordStep(t, j, f, seq+1, fmt.Sprint("step-", seq))
		}
		if n%2 == 0 {
			_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Ref: f.Ref, At: time.Now(), Claim: f.Claim, Due: time.Now().Add(time.Hour)})
			require.NoError(t, err)
		}
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	side, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)

	random := seeded(t)
	dir := t.TempDir()
	look := func(n int, file []byte) (v view, violations []sqlite.Violation, err error) {
		path := filepath.Join(dir, fmt.Sprint(n, ".db"))
		require.NoError(t, os.WriteFile(path, file, 0o600))
		require.NoError(t, os.WriteFile(path+"-sidecar", side, 0o600))
		j, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			return v, nil, err
		}
		defer j.Close()
		if violations, err = j.Verify(t.Context()); err != nil {
			return v, nil, err
		}
		v, err = viewOf(t.Context(), j, operations, flows)
		return v, violations, err
	}
	want, violations, err := look(-1, whole)
	require.NoError(t, err)
	require.Empty(t, violations)
	require.Len(t, want.listed, 40)
	require.NotEmpty(t, want.claimed)
	require.NotEmpty(t, want.taken)
	var pages []int
	var pageSize int
	rows, err := anotherProcess(t, path).QueryContext(t.Context(), `SELECT pageno, page_size FROM dbstat, pragma_page_size
		WHERE name GLOB 'onceward_rows*' OR name GLOB 'onceward_answers*' OR name GLOB 'onceward_flow*' ORDER BY pageno`)
	require.NoError(t, err)
	for rows.Next() {
		var page int
		require.NoError(t, rows.Scan(&page, &pageSize))
		pages = append(pages, page)
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	require.NotEmpty(t, pages)
	noticed := 0
	flips := soak.Times(15, 150)
	tried := 0
	for ; tried < flips || noticed == 0 && tried < 2000; tried++ { // a few flips may all hit unused space
		damaged := append([]byte(nil), whole...)
		at := (pages[random.IntN(len(pages))]-1)*pageSize + random.IntN(pageSize)
		damaged[at] ^= 1 << random.IntN(8)
		got, violations, err := look(tried, damaged)
		if err != nil || len(violations) > 0 {
			noticed++
			continue
		}
		assert.Equal(t, want, got, "byte %d", at)
	}
	t.Logf("%d of %d flips were noticed", noticed, tried)
	assert.Positive(t, noticed)
}
