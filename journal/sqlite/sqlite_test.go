package sqlite_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/journaltest"
	"github.com/onceward/onceward/journal/sqlite"
)

func open(t *testing.T, path string) *sqlite.Journal {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// joined is an open journal with a session.
func joined(t *testing.T) (path string, j *sqlite.Journal, s machine.Session) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j = open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	return path, j, s
}

func TestItKeepsThePromisesOfAJournal(t *testing.T) {
	t.Parallel()
	rowstoretest.Conformance(t, func(t *testing.T) journaltest.Harness {
		return harness(t, filepath.Join(t.TempDir(), "journal.db"))
	}, map[string]string{"interruptions": "a file has no connections or server"}, 196)
}

func harness(t *testing.T, path string) journaltest.Harness {
	ring := rowstoretest.HalfSealed(t)
	first := openSealed(t, path, ring)
	return journaltest.Harness{
		Journal:      first,
		ForgetsAhead: true,
		Seed:         soak.Seed(t, 1),
		Open:         func(t *testing.T) machine.Store { return openSealed(t, path, ring) },
		Reopen: func(t *testing.T) machine.Store {
			_ = first.Close() // the test may have closed it
			return openSealed(t, path, ring)
		},
		Kill:   func(t *testing.T, s machine.Session) { sqlite.Kill(s) },
		Freeze: func(t *testing.T, s machine.Session) func() { sqlite.Kill(s); return func() {} },
		Crash: func(t *testing.T) machine.Store {
			copied := filepath.Join(t.TempDir(), "journal.db")
			for _, name := range filesOf(t, path) {
				if suffix := strings.TrimPrefix(name, path); suffix != "-shm" {
					copyFile(t, name, copied+suffix)
				}
			}
			return openSealed(t, copied, ring)
		},
		Restored: func(t *testing.T) machine.Store {
			_ = first.Close()
			require.NoError(t, os.Remove(path+"-sidecar"))
			return openSealed(t, path, ring)
		},
	}
}

// filesOf lists the files of a journal, except a sidecar that is being written. That has another name by the time a
// caller reads it.
func filesOf(t *testing.T, path string) []string {
	t.Helper()
	folder, base := filepath.Split(path)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, base) && !strings.HasPrefix(name, base+"-sidecar-") {
			names = append(names, folder+name)
		}
	}
	return names
}

// contents returns the contents of all files of a journal.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range filesOf(t, path) {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		all[name] = string(content)
	}
	return all
}

var terms = journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true}

// begin is an event by which a session begins a named operation.
func begin(id string, s machine.Session) machine.Event {
	return machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(),
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id, Terms: terms,
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
		},
	}
}

// generate is an event by which a session begins an operation with a fresh generated key.
func generate(key string, s machine.Session) machine.Event {
	ev := begin(key, s)
	ev.New, ev.Intent.Naming, ev.Intent.Key = true, journal.Generated, key
	return ev
}

func complete(op journal.Operation, s machine.Session) machine.Event {
	return machine.Event{
		Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: time.Now(), Session: s.ID(),
		Claim: op.Claim, Generation: op.Generation, Attempts: 1, Delivered: true,
		Answer: &journal.Answer{Status: 201, Body: []byte("paid " + op.ID)},
	}
}

func claim(s machine.Session) machine.Event {
	return machine.Event{Kind: machine.EventClaim, At: time.Now(), Session: s.ID()}
}

// seeded is a source of random numbers. They are the same each time, except in the soak.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(soak.Seed(t, 1), 0))
}

// noises counts the calls of noise.
var noises atomic.Uint32

// noise returns bytes that can't be compressed, different ones each time.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte(binary.NativeEndian.AppendUint32(make([]byte, 28), noises.Add(1)))).Read(b)
	return b
}

// oneIn reports true for every n-th call.
func oneIn(n int64) func() bool {
	var calls atomic.Int64
	return func() bool { return calls.Add(1)%n == 0 }
}

// childTest names the test that a child runs.
const childTest = "ONCEWARD_SQLITE_TEST"

// alone runs the test again in a process of its own, whose limits, folder and environment it may change. It reports whether
// this is that process.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childTest) == t.Name() {
		return true
	}
	out, err := testAlone(t, nil)
	require.NoError(t, err, "%s", out)
	require.Contains(t, out, "--- PASS: "+t.Name())
	return false
}

func testAlone(t *testing.T, attr *syscall.SysProcAttr) (out string, err error) {
	t.Helper()
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	again.Env = append(os.Environ(), childTest+"="+t.Name())
	again.SysProcAttr = attr
	said, err := again.CombinedOutput()
	return string(said), err
}
