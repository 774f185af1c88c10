package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal/sqlite"
)

var update = flag.Bool("update", false, "write the golden files anew")

// varying lists the output parts that differ from run to run and machine to machine.
var varying = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`\b\d+ (d|h|min|s|ms)\b( \d+ (h|min)\b)?`), "<duration>"},
	{regexp.MustCompile(`\b\d+ (KiB|MiB|GiB|B)\b`), "<size>"},
	{regexp.MustCompile(`"(file_bytes|free_bytes|wal_bytes|bytes|window_left)": ?[\d.]+`), `"$1": <n>`},
	{regexp.MustCompile(`\d+ % of the window`), "<n> % of the window"},
	{regexp.MustCompile(`/tmp/[^\s",]+`), "<path>"},
	{regexp.MustCompile(`(schema: |"says": ?")version \d+`), "${1}version <n>"},
	{regexp.MustCompile(`go1\.[\d.]+\S*`), "<go>"},
	{regexp.MustCompile(`"endpoints": ?\d+`), `"endpoints": <n>`},
	{regexp.MustCompile(`(?m)^([a-z.]+ +)\d+( +[a-z*-]+\.[a-z])`), "$1<n>$2"}, // likewise, in a table
	{regexp.MustCompile(`"revision": "\w+",?\s*`), ""},
	{regexp.MustCompile(` +`), " "}, // the columns' width depends on their content
}

// onThisMachine matches doctor's checks for the machine that the tests run on.
var onThisMachine = regexp.MustCompile(`(?m)(^(ok|warn|fail) +(clock-sync|filesystem|space): .*\n( {8}.*\n)*|\s*\{\s*"check": ?"(clock-sync|filesystem|space)"[^}]*\},?)`)

// verbs are every verb that only reads, over a journal with one of each in it.
var verbs = map[string][]string{
	"ls": {"ls"}, "ls-page": {"ls", "--limit", "2", "--after", "#6"}, "ls-states": {"ls", "--state", "unknown,cancelled", "--oldest-first"},
	"ls-scope": {"ls", "--scope", planted.Scope}, "ls-none": {"ls", "--provider", "adyen"}, "ls-old": {"ls", "--older-than", "5h"},
	"attention": {"attention"}, "show": {"show", planted.Completed}, "show-unknown": {"show", planted.Unknown}, "show-reveal": {"show", "#2", "--reveal"},
	"show-twice": {"show", planted.Twice}, "show-hostile": {"show", "#7"}, "show-keys": {"show", "#2", "--full-keys"},
	"why-closing": {"why", planted.Closing}, "why-unsent": {"why", planted.Unsent, "--scope", planted.Scope}, "why-unknown": {"why", planted.Unknown},
	"why-completed": {"why", planted.Completed}, "why-cancelled": {"why", planted.Cancelled},
	"flows": {"flows"}, "flows-state": {"flows", "--state", "waiting"}, "flow": {"flow", planted.SetAside}, "flow-reveal": {"flow", "#1", "--reveal"},
	"stats": {"stats"}, "verify": {"verify"}, "doctor": {"doctor", "--bodies", "3"}, "export": {"export"}, "export-bodies": {"export", "--bodies"},
	"adopt": {"adopt", "--yes"}, "reap": {"reap", "--keep", "2160h"},
	"providers-ls": {"providers", "ls"}, "providers-show": {"providers", "show", "Stripe"}, "providers-explain": {"providers", "explain", "post", "https://api.stripe.com/v1/charges?key=" + planted.Secret},
	"providers-explain-unknown": {"providers", "explain", "POST", "https://example.com/pay"}, "providers-explain-reads": {"providers", "explain", "GET", "https://api.stripe.com/v1/charges"},
	"version": {"version"},
}

// receiptVerbs are run over the same journal, with receipts.
var receiptVerbs = map[string][]string{
	"receipts": {"receipts"}, "receipts-page": {"receipts", "--limit", "2", "--after", "#5"}, "receipts-oldest": {"receipts", "--oldest-first", "--limit", "1"},
	"receipts-state": {"receipts", "--state", "reserved"}, "receipts-tenant": {"receipts", "--tenant", planted.Tenant}, "receipts-consumer": {"receipts", "--consumer", planted.Consumer},
	"receipts-endpoint": {"receipts", "--endpoint", "refunds.create"}, "receipts-old": {"receipts", "--older-than", "48h"},
	"receipt": {"receipt", planted.AnsweredKey, "--tenant", planted.Tenant}, "receipt-reveal": {"receipt", "#1", "--reveal"}, "receipt-reserved": {"receipt", "#2"},
	"receipt-keys": {"receipt", "#2", "--full-keys"}, "receipt-hostile": {"receipt", "#3"},
	"receipt-message":    {"receipt", planted.UnknownEvent, "--consumer", planted.Consumer, "--source", planted.Source, "--replay", "2026"},
	"receipts-attention": {"attention"}, "receipts-stats": {"stats"}, "receipts-verify": {"verify"}, "receipts-doctor": {"doctor", "--bodies", "3"},
	"receipts-reap": {"reap", "--keep", "2160h"},
}

// withReceipts is journalWith, with receipts.
func withReceipts(t *testing.T) (path string, j *sqlite.Journal) {
	t.Helper()
	path, j = journalWith(t)
	require.NoError(t, planted.PlantReceipts(t.Context(), j, time.Now().Add(-24*time.Hour), 7*24*time.Hour))
	return path, j
}

func TestGolden(t *testing.T) {
	seen := map[string]bool{}
	path, _ := journalWith(t)
	golden(t, path, verbs, seen)
	path, _ = withReceipts(t)
	golden(t, path, receiptVerbs, seen)
	entries, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, e := range entries {
		assert.True(t, seen[e.Name()], "testdata/%s is of no verb any more", e.Name())
	}
}

// golden compares verbs' output with the golden files, and adds their names to seen.
func golden(t *testing.T, path string, verbs map[string][]string, seen map[string]bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(verbs)) { // in one order, since a reap tells the journal the time
		args := verbs[name]
		for _, form := range []string{"table", "json", "jsonl"} {
			t.Run(name+"."+form, func(t *testing.T) {
				s := runs(t, append([]string{"-j", path, "-o", form}, args...)...)
				got := s.out
				examines := strings.HasSuffix(name, "doctor")
				if examines {
					got = onThisMachine.ReplaceAllString(got, "")
				}
				for _, v := range varying {
					got = v.is.ReplaceAllString(got, v.as)
				}
				file := filepath.Join("testdata", name+"."+form)
				if *update {
					require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err, "go test -run Golden -update makes it")
				assert.Equal(t, string(want), got, s.err)
				assert.Contains(t, []int{exitDone, exitFindings}, s.code, s.err)
				assert.Equal(t, examines, s.code == exitFindings, "doctor finds the second effect")
			})
			seen[name+"."+form] = true
		}
	}
}

// No verb prints a planted secret, or a character that a terminal would obey.
func TestNothingSecretIsPrinted(t *testing.T) {
	path, _ := withReceipts(t)
	every := maps.Clone(receiptVerbs)
	maps.Copy(every, verbs)
	for name, args := range every {
		if name == "export-bodies" {
			continue // a caller who asks for whole bodies gets them
		}
		for _, form := range []string{"table", "json", "jsonl"} {
			s := runs(t, append([]string{"-j", path, "-o", form}, args...)...)
			for _, canary := range []string{planted.Card, planted.Secret, "\u202e", "\u2066", "\u009b", "\x1b"} {
				assert.NotContains(t, s.out+s.err, canary, "%s -o %s", name, form)
			}
			if !strings.HasSuffix(name, "-keys") && name != "export" {
				assert.NotContains(t, s.out+s.err, "0123456789abcdef", "%s -o %s shows a key whole", name, form)
			}
			assert.False(t, strings.Contains(s.err, "panic"), s.err)
		}
	}
}
