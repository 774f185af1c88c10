package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
)

// listOf writes a list of objects that were created a minute after the planted charge was sent. It returns the flags of a comparison
// with the hours around it.
func listOf(t *testing.T, rows ...string) (path string, args []string) {
	t.Helper()
	at := time.Now().Add(-40 * time.Minute)
	text := "id,reference,amount,currency,time\n"
	for _, row := range rows {
		text += row + "," + at.UTC().Format(time.RFC3339) + "\n"
	}
	path = filepath.Join(t.TempDir(), "list.csv")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path, []string{"compare", path, "--provider", "stripe", "--from", at.Add(-20 * time.Minute).UTC().Format(time.RFC3339), "--to", time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)}
}

// Beside the application, the command compares a list with the journal, and says first what it compared.
func TestCompare(t *testing.T) {
	journalPath, _ := journalWith(t)
	_, args := listOf(t, "ch_1,,20.00,EUR", "ch_3,,20.00,eur")
	s := runs(t, append([]string{"-j", journalPath}, args...)...)
	require.Equal(t, exitDone, s.code, s.out+s.err)
	first, rest, _ := strings.Cut(s.out, "\n")
	assert.Contains(t, first, "2 of 2 operations matched, 2 amounts compared, 2 objects listed, ")
	assert.Contains(t, rest, "the provider has what the journal has")
	assert.Contains(t, rest, "unsettled")
	assert.Empty(t, s.err)

	path, args := listOf(t, "ch_1,,25.00,EUR", "ch_3,,20.00,EUR", "ch_9,,1.00,EUR")
	args = append([]string{"-j", journalPath}, args...)
	s = runs(t, args...)
	require.Equal(t, exitFindings, s.code, s.out+s.err)
	assert.Contains(t, s.out, "the provider and the journal differ")
	assert.Contains(t, s.out, "only there, without a mark: 1 of kind object, 1.00 EUR\n")
	assert.Contains(t, s.out, "the request says 20.00 EUR, and the provider moved 25.00 EUR")

	s = runs(t, append(args, "-o", "json")...)
	require.Equal(t, exitFindings, s.code)
	var out comparison
	require.NoError(t, json.Unmarshal([]byte(s.out), &out))
	require.NotEmpty(t, out.Findings)
	f := out.Findings[0]
	assert.Equal(t, []any{"other_amount", true, planted.Completed, "charge ch_1", &money{2000, "EUR"}, &money{2500, "EUR"}}, []any{f.Kind, f.Grave, f.Name, f.Object, f.Here, f.There})
	assert.Equal(t, len(out.Findings), strings.Count(runs(t, append(args, "-o", "jsonl")...).out, "\n"))

	known := path + ".known"
	require.NoError(t, os.WriteFile(known, []byte("# accepted by ann\n\n"+f.ID+" # a tip\n"), 0o600))
	s = runs(t, append(args, "--known", known)...)
	assert.Equal(t, exitDone, s.code, s.out+s.err)
	assert.Contains(t, s.out, "1 findings are known\n")

	list, err := os.ReadFile(path)
	require.NoError(t, err)
	args[3] = "-"
	s = runsWith(t, string(list), args...)
	assert.Equal(t, exitFindings, s.code, s.err)
}

// Each journal for the account takes part, and none is changed.
func TestCompareSeveralJournals(t *testing.T) {
	one, j := journalWith(t)
	other, _ := journalWith(t)
	_, args := listOf(t, "ch_1,,20.00,EUR", "ch_3,,20.00,EUR")
	before, err := j.Get(t.Context(), journal.Ref{ID: planted.Unknown})
	require.NoError(t, err)
	s := runs(t, append([]string{"-j", one, "--also", other}, args...)...)
	assert.Equal(t, exitDone, s.code, s.out+s.err)
	assert.Contains(t, s.out, "4 of 4 operations matched")
	after, err := j.Get(t.Context(), journal.Ref{ID: planted.Unknown})
	require.NoError(t, err)
	assert.Equal(t, before, after)
	link := filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.Symlink(one, link))
	for _, same := range []string{one, link, filepath.Dir(one) + "/./" + filepath.Base(one)} {
		s = runs(t, append([]string{"-j", one, "--also", same}, args...)...)
		assert.Equal(t, exitUsage, s.code, same)
	}
}

// Incomparable records are left out: the exit code is neither agreement's nor a difference's.
func TestCompareNotObtained(t *testing.T) {
	journalPath, _ := journalWith(t)
	path, args := listOf(t, "ch_1,,20.00,EUR")
	broken := path + ".broken"
	require.NoError(t, os.WriteFile(broken, []byte("id,reference,amount,currency,time\nch_1,,\"1,000.00\",EUR,2026-03-02T10:00:00Z\n"), 0o600))
	known := path + ".known"
	require.NoError(t, os.WriteFile(known, []byte("\nch_1\n"), 0o600))
	with := func(more ...string) []string { return append(append([]string{"-j", journalPath}, args...), more...) }
	for _, row := range []struct {
		args []string
		code int
		says string
	}{
		{append([]string{"-j", journalPath, "compare", broken}, args[2:]...), exitUsage, "line 2: \"1,000.00\" is no decimal number"},
		{append([]string{"-j", journalPath, "compare", path + ".gone"}, args[2:]...), exitNotFound, "no such file"},
		{append([]string{"-j", journalPath + ".gone"}, args...), exitNotFound, "there is no journal"},
		{with("--also", journalPath+".gone"), exitNotFound, "there is no journal"},
		{with("--also", "postgres://u:secret@db/x"), exitUsage, "password"},
		{with("--provider", "nobody"), exitUsage, "providers ls"},
		{with("--from", "yesterday"), exitUsage, "--from yesterday: write a day"},
		{with("--to", "2999-01-01"), exitUsage, "--to: it ends in the future"},
		{with("--kind", "payment"), exitUsage, "--kind: no endpoint of the table creates a"},
		{with("--known", known), exitUsage, "line 2: ch_1 is no id of a finding"},
		{[]string{"-j", journalPath, "compare"}, exitUsage, "the list's file"},
	} {
		s := runs(t, row.args...)
		assert.Equal(t, row.code, s.code, "%v: %s", row.args, s.out+s.err)
		assert.Contains(t, s.err, row.says)
		assert.Empty(t, s.out)
		assert.NotContains(t, s.err, "secret@")
	}
}
