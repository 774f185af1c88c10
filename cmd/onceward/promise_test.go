package main

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
)

// schemaFor returns the JSON schema for a verb's output, changed to accept no other names.
func schemaFor(t *testing.T, verb string) *jsonschema.Schema {
	t.Helper()
	require.Contains(t, outputs, verb)
	text, err := json.Marshal(schemaOfAll())
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.ReplaceAll(string(text), `"type":"object"`, `"type":"object","unevaluatedProperties":false`)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("schema.json", doc))
	schema, err := c.Compile("schema.json#/properties/" + verb)
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

// Each verb's output under -o json follows its schema, and the schema names all of it.
func TestOutputsKeepTheirSchema(t *testing.T) {
	path, j := withReceipts(t)
	now := time.Now()
	place := feed.Place{Last: now, Failed: []feed.FailedEvent{{ID: "evt_1", Type: "payout.failed", At: now, Since: now.Add(-48 * time.Hour), Err: "x"}}}
	_, err := j.SetBookmark(t.Context(), journal.Bookmark{Name: feed.BookmarkOf("stripe", "", ""), At: now, Note: place.Note()})
	require.NoError(t, err)
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
		case strings.HasPrefix(name, "export"):
			continue
		case verb == "providers":
			verb += "-" + args[1]
		}
		check(verb, args...)
	}
	check("seal-status", "seal", "status")
	check("backup", "backup", path+".copy")
	_, list := listOf(t, "ch_1,,25.00,EUR", "ch_9,,1.00,EUR")
	check("compare", list...)
	check("close", "close", "evt_1", "--yes")
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
