package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
)

// schemaFor returns the JSON schema that a verb gives for its output, changed to accept no other names.
func schemaFor(t *testing.T, verb string) *jsonschema.Schema {
	t.Helper()
	s := runs(t, "-o", "json", "schema", verb)
	require.Equal(t, exitDone, s.code, s.err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.ReplaceAll(s.out, `"type": "object"`, `"type": "object", "unevaluatedProperties": false`)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("schema.json", doc))
	schema, err := c.Compile("schema.json")
	require.NoError(t, err)
	return schema
}

// decoded is the first value that a verb has printed.
func decoded(t *testing.T, out string) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.SplitN(out, "\n{", 2)[0]))
	require.NoError(t, err)
	return value
}

// The output of each verb under -o json follows its schema, and the schema names all of it.
func TestOutputsKeepTheirSchema(t *testing.T) {
	path, _ := withReceipts(t)
	compiled := func(verb string) *jsonschema.Schema { return schemaFor(t, verb) }
	checked := map[string]bool{}
	check := func(verb string, args ...string) {
		s := runs(t, append([]string{"-j", path, "-o", "json"}, args...)...)
		require.Contains(t, []int{exitDone, exitFindings}, s.code, "%v: %s", args, s.err)
		assert.NoError(t, compiled(verb).Validate(decoded(t, s.out)), verb)
		checked[verb] = true
	}
	every := maps.Clone(receiptVerbs)
	maps.Copy(every, verbs)
	for name, args := range every {
		verb := args[0]
		switch {
		case strings.HasPrefix(name, "export"), verb == "schema":
			continue
		case verb == "providers":
			verb += "-" + args[1]
		}
		check(verb, args...)
	}
	check("backup", "backup", path+".copy")
	check("resolve", "resolve", planted.Unknown, "--executed", "--because", "x", "--yes", "--seen", "0.1")
	check("receipt-resolve", "receipt", "resolve", "#2", "--executed", "--answer-status", "204", "--because", "x", "--yes", "--seen", "2.1")
	check("cancel", "cancel", planted.Unsent, "--scope", planted.Scope, "--yes", "--seen", "0.1")
	check("flow-retry", "flow", "retry", planted.SetAside)
	check("flow-give-up", "flow", "give-up", planted.Waiting, "--because", "x", "--yes")
	lines := strings.Split(strings.TrimSpace(runs(t, "-j", path, "export", "--bodies").out), "\n")
	require.Len(t, lines, 9)
	for _, line := range lines {
		out, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		require.NoError(t, err)
		assert.NoError(t, compiled("export").Validate(out))
	}
	checked["export"], checked["ui"] = true, true // ui prints its address and goes on
	for verb := range outputs {
		assert.True(t, checked[verb], "%s is not checked", verb)
	}
}

// A line of export has the same names and values as a line that reap archives.
func TestExportHasTheArchivesNames(t *testing.T) {
	path, j := journalWith(t)
	archive := path + ".archive"
	session, err := j.Join(t.Context())
	require.NoError(t, err)
	began, err := j.Apply(t.Context(), journal.Event{ // at a provider that remembers nothing
		Kind: journal.EventBegin, Ref: journal.Ref{Scope: "s", ID: "old"}, At: time.Now().Add(-time.Minute), Session: session.ID(), Asker: 1,
		Intent: &journal.Intent{Fingerprint: "f", Key: "a-key", Request: journal.Request{Method: "POST", URL: "https://example.com/pay", Body: []byte("x=1")}},
	})
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), journal.Event{
		Kind: journal.EventComplete, Ref: began.Operation.Ref, Handle: began.Operation.Handle, At: time.Now().Add(-time.Second), Session: session.ID(),
		Claim: 1, Attempts: 1, Delivered: true, Answer: &journal.Answer{Status: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("paid")},
	})
	require.NoError(t, err)
	require.NoError(t, session.End(t.Context()))
	exported := map[string]map[string]any{}
	for line := range strings.SplitSeq(strings.TrimSpace(runs(t, "-j", path, "export", "--bodies").out), "\n") {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		exported[one["id"].(string)] = one
	}
	require.NoError(t, j.Close())
	s := runs(t, "-j", path, "reap", "--keep", "1ms", "--archive", archive, "--bodies", "--yes")
	require.Equal(t, exitDone, s.code, s.err)
	text, err := os.ReadFile(archive)
	require.NoError(t, err)
	assert.Contains(t, s.out, "1 operations", "the other providers may still remember theirs")
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		assert.Equal(t, exported[one["id"].(string)], one)
	}
}

// reap refuses a file as its archive if that is none, such as the journal or a copy of it, and leaves it unchanged.
func TestReapDestroysNoDatabase(t *testing.T) {
	path, _ := journalWith(t)
	copied := filepath.Join(t.TempDir(), "copy.db")
	require.Equal(t, exitDone, runs(t, "-j", path, "backup", copied).code)
	link := filepath.Join(t.TempDir(), "archive")
	require.NoError(t, os.Symlink(path+"-sidecar", link))
	for _, archive := range []string{path, path + "-wal", path + "-sidecar", link, copied, t.TempDir()} {
		before, _ := os.ReadFile(archive)
		s := runs(t, "-j", path, "reap", "--keep", "2160h", "--archive", archive)
		assert.Equal(t, exitUsage, s.code, "%s: %s", archive, s.err)
		after, _ := os.ReadFile(archive)
		assert.Equal(t, before, after)
	}
	assert.Equal(t, exitDone, runs(t, "-j", path, "reap", "--keep", "2160h", "--archive", path+"-archive.jsonl").code)
	assert.Equal(t, exitDone, runs(t, "-j", path, "verify").code)
}
