package sqlite_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// testdata has a journal of each version of the schema, as a killed process has left it. So a committed version can't
// be edited: Verify would miss what was added to it.
//
// A change that adds a version makes its file, and commits it:
//
//	go test ./journal/sqlite -run TestSchemaFile -schemafile
//
// No commit ever wrote the files of versions 1 and 2. They were made from the file of version 3, by dropping the tables
// contents and outbox.
var makeSchemaFile = flag.Bool("schemafile", false, "make the file of the latest version of the schema in testdata")

var schemaFileTime = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func schemaFile(version int) string {
	return filepath.Join("testdata", fmt.Sprintf("schema-%d.db", version))
}

// writeSchemaFile makes a journal with operations and flows in every state, in rows, in blocks, in the log and in the
// outbox. It writes the journal, its sidecar and a description of its contents to testdata.
func writeSchemaFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	var s journal.Session
	at := schemaFileTime.Add(-48 * time.Hour)
	apply := func(ev journal.Event) journal.Operation {
		ev.At = at
		res, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		return res.Operation
	}
	begins := func(id string) journal.Operation {
		ev := begin(id, s)
		ev.Intent.Reference, ev.Intent.ReferenceName = "reference-of-"+id, "metadata"
		return apply(ev)
	}
	completes := func(op journal.Operation, delivered bool) {
		ev := complete(op, s)
		if ev.Delivered = delivered; op.Naming == journal.Named {
			ev.Object = "charge object-of-" + op.Key // an operation with an object is kept for longer
		}
		apply(ev)
	}
	some := func(prefix string) {
		completes(begins(prefix+"-completed"), true)
		completes(begins(prefix+"-undelivered"), false)
		ev := complete(begins(prefix+"-doubted"), s)
		ev.Kind, ev.Answer, ev.Open, ev.Delivered = journal.EventDoubt, nil, true, false
		apply(ev)
		begins(prefix + "-in-flight")
		completes(apply(generate(prefix+"-generated", s)), true)
	}
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for n := range sqlite.SegmentSize {
		completes(apply(generate(fmt.Sprint("many-", n), s)), true)
	}
	some("reaped")
	for at.Before(schemaFileTime) {
		at = at.Add(12 * time.Hour) // a larger step is a leap, which leaves the clock unconfirmed
		_, err = j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: at, Keep: 36 * time.Hour}, 5000)
		require.NoError(t, err)
	}
	_, err = planted.Plant(t.Context(), j, at)
	require.NoError(t, err)
	some("folded")
	require.NoError(t, sqlite.Fold(j))
	some("logged")
	tx, err := anotherProcess(t, path).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	ev := enqueue("enqueued")
	ev.At = at
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())

	packJournal(t, j, path, schemaFile(sqlite.SchemaVersion), described(t, j))
}

// packJournal writes the journal at path, its sidecar and a description of its contents to testdata.
func packJournal(t *testing.T, j *sqlite.Journal, path, name, holds string) {
	copied := filepath.Join(t.TempDir(), "copied.db")
	_, err := anotherProcess(t, path).ExecContext(t.Context(), "VACUUM INTO '"+copied+"'") // as a process that is killed leaves it
	require.NoError(t, err)
	side, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll("testdata", 0o755))
	content, err := os.ReadFile(copied)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name+".zst", encoder.EncodeAll(content, nil), 0o644))
	require.NoError(t, os.WriteFile(name+".sidecar", side, 0o644))
	require.NoError(t, os.WriteFile(name+".txt", []byte(holds), 0o644))
}

// described lists the journal's contents, a line each. New fields of Operation do not change a line.
func described(t *testing.T, j *sqlite.Journal) string {
	t.Helper()
	var lines []string
	for _, op := range listed(t, j, journal.Filter{}) {
		op, err := j.Get(t.Context(), op.Ref) // with its bodies
		require.NoError(t, err)
		line := fmt.Sprintf("operation %q %q %q: %s, key %q, claim %d, generation %d, attempts %d, tombstone %v, delivered %v, request %x",
			op.Scope, op.Parent, op.ID, op.State, op.Key, op.Claim, op.Generation, op.Attempts, op.Tombstone, op.Delivered, sha256.Sum256([]byte(op.Request.URL+string(op.Request.Body))))
		if op.Answer != nil {
			line += fmt.Sprintf(", answer %d %q", op.Answer.Status, op.Answer.Body)
		}
		lines = append(lines, line)
	}
	for f, err := range j.ListFlows(t.Context(), journal.FlowFilter{}) {
		require.NoError(t, err)
		f, err = j.GetFlow(t.Context(), f.Ref)
		require.NoError(t, err)
		lines = append(lines, fmt.Sprintf("flow %q: %s, input %q, %d steps", f.ID, f.State, f.Input, len(f.Steps)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// unpacked returns the path of a packed journal, as its killed process has left it.
func unpacked(t *testing.T, name string) (path string) {
	t.Helper()
	decoder, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer decoder.Close()
	packed, err := os.ReadFile(name + ".zst")
	require.NoError(t, err, "make it: see above")
	path = filepath.Join(t.TempDir(), "journal.db")
	content, err := decoder.DecodeAll(packed, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	copyFile(t, name+".sidecar", path+"-sidecar")
	rows, err := anotherProcess(t, path).QueryContext(t.Context(), "SELECT id FROM onceward_sessions")
	require.NoError(t, err)
	for rows.Next() {
		var id string
		require.NoError(t, rows.Scan(&id))
		require.NoError(t, os.WriteFile(path+"-session-"+id, nil, 0o600)) // whose lock the killed process does not hold
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	return path
}

func TestSchemaFile(t *testing.T) {
	if *makeSchemaFile {
		writeSchemaFile(t)
	}
	for version := 1; version <= sqlite.SchemaVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := unpacked(t, schemaFile(version))
			require.Equal(t, version, number(t, path, "SELECT version FROM onceward_schema"))

			j := open(t, path)
			want, err := os.ReadFile(schemaFile(version) + ".txt")
			require.NoError(t, err)
			assert.Equal(t, string(want), described(t, j))
			assert.Empty(t, verify(t, j))
			assert.Equal(t, sqlite.SchemaVersion, number(t, path, "SELECT version FROM onceward_schema"))
			for by, value := range map[journal.By]string{journal.ByReference: "reference-of-folded-doubted", journal.ByObject: "charge object-of-key-of-folded-completed"} {
				found, err := j.FindBy(t.Context(), "ledger", by, value)
				require.NoError(t, err)
				assert.Len(t, found, 1, value)
			}
			goesOn(t, j)
			assert.Empty(t, verify(t, j))
			require.NoError(t, j.Close())
			assert.Empty(t, verify(t, open(t, path)))
		})
	}
}

// goesOn makes a session take over what there is: all that is due, the killed process's operations, and flows.
func goesOn(t *testing.T, j *sqlite.Journal) {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	at := schemaFileTime.Add(2 * time.Minute)
	ev := claim(s)
	ev.At = at
	results, err := j.Claim(t.Context(), ev, 1000)
	require.NoError(t, err)
	ended := make(map[string]journal.Decision)
	for _, res := range results {
		ended[res.Operation.ID] = res.Decision
		if res.Decision == journal.Execute {
			ev := complete(res.Operation, s)
			ev.At = at
			_, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
		}
	}
	for want, ids := range map[journal.Decision][]string{
		journal.Execute: {planted.Held, "folded-in-flight", "logged-in-flight"},
		journal.Offer:   {planted.Unknown, "folded-undelivered", "logged-undelivered", "folded-doubted", "logged-doubted"},
	} {
		for _, id := range ids {
			assert.Equal(t, want, ended[id], id)
		}
	}
	flows, err := j.ClaimFlows(t.Context(), journal.FlowEvent{
		Kind: journal.FlowEventClaim, At: at.Add(48 * time.Hour), Session: s.ID(), Functions: []journal.FlowFunction{{Name: "fulfil", Version: 1}},
	}, 10)
	require.NoError(t, err)
	assert.Len(t, flows, 1)
	_, err = j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: at.Add(100 * 24 * time.Hour)}, 5000)
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
}
