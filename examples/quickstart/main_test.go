package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The storm runs itself as the payer: here, that is the test binary.
func TestMain(m *testing.M) {
	if os.Getenv(stripeVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// A storm reports each payer's result. Onceward makes no duplicate charge and loses none. The provider of the fourth
// invoice takes no keys. Runs of more invoices have stood still for a minute, maybe after a kill
// during that look-up. So only three are paid.
func TestStormReportsEachPayer(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	dir := filepath.Join(t.TempDir(), "kept")
	status := run(t.Context(), []string{"-invoices", "3", "-kills", "2", "-seed", "14", "-dir", dir}, &out, &errs)
	require.Zero(t, status, "%s%s", &out, &errs)
	for _, row := range []string{
		`invoices +3 +3 +3`,
		`effects in the providers' ledgers +\d+ +\d+ +3`,
		`duplicates +\d+ +\d+ +0`, // how many of the others' depends on when the kills strike
		`lost: never made, never will be +\d+ +\d+ +0`,
		`made, but taken for failed or unheard of +\d+ +\d+ +0`, // how many of the others' depends on when the kills strike
		`unknown, and said so: for a person +– +– +0`,
		`requests +\d+ +\d+ +\d+`,
		`kills +2 +2 +2`,
		`deploys +\d+ +\d+ +\d+`,
		`operations resumed +– +– +\d+`,
	} {
		assert.Regexp(t, `(?m)^`+row+`$`, out.String())
	}
	assert.Equal(t, 1, strings.Count(out.String(), "where keys are taken"), "%s", &out)
	assert.FileExists(t, filepath.Join(dir, "onceward", journalFile))
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-invoices", "0"},
		{"-invoices", "20", "-kills", "26"},
		{"-kills", "-1"},
		{"-seed", "x"},
		{"-unheard-of"},
		{"-payer", "nobody"},
		{"now"},
	} {
		var errs bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), args, io.Discard, &errs), "%q", args)
		assert.NotEmpty(t, errs.String(), "%q", args)
	}
}

// A directory that has files is refused.
func TestDirectoryWithFilesIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "payments.db"), nil, 0o600))
	var errs bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), []string{"-dir", dir}, io.Discard, &errs))
	assert.Contains(t, errs.String(), "not empty")
}

// There are two hundred invoices and no two with one name.
func TestTwoHundredInvoices(t *testing.T) {
	invoices, err := readInvoices()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, inv := range invoices {
		names[inv.ID] = true
		assert.Positive(t, inv.Amount)
		assert.Len(t, inv.Currency, 3)
	}
	assert.Len(t, invoices, 200)
	assert.Len(t, names, 200)
}
