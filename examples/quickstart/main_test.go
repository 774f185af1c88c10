package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The storm runs itself as the payer: here, that is the test binary.
func TestMain(m *testing.M) {
	if os.Getenv(providerVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestAStormChargesEveryInvoiceOnce(t *testing.T) {
	var out, errs bytes.Buffer
	dir := filepath.Join(t.TempDir(), "kept")
	status := run(t.Context(), []string{"-invoices", "20", "-kills", "4", "-dir", dir}, &out, &errs)
	require.Zero(t, status, "%s%s", &out, &errs)
	for _, row := range []string{
		`invoices +20`,
		`effects in the provider's ledger +20`,
		`duplicates +0`,
		`lost +0`,
		`unknown +0`,
		`kills +4`,
		`operations resumed +\d+`,
	} {
		assert.Regexp(t, `(?m)^`+row+`$`, out.String())
	}
	assert.FileExists(t, filepath.Join(dir, journalFile))
}

func TestNoPayerComesToItsEndBeforeItsKill(t *testing.T) {
	for _, seed := range []string{"164", "193"} { // the kill comes late, and no fault keeps the payer
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"-invoices", "1", "-kills", "1", "-seed", seed}, &out, &errs)
		require.Zero(t, status, "%s%s", &out, &errs)
		assert.Regexp(t, `(?m)^kills +1$`, out.String())
	}
}

func TestThePlainStormChargesTwiceAndFails(t *testing.T) {
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"-plain", "-invoices", "20", "-kills", "10", "-seed", "1"}, &out, &errs)
	assert.Equal(t, 1, status)
	assert.Regexp(t, `(?m)^duplicates +[1-9]`, out.String())
	assert.Contains(t, errs.String(), "charges beyond the first of an invoice")
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-invoices", "0"},
		{"-invoices", "20", "-kills", "26"},
		{"-kills", "-1"},
		{"-seed", "x"},
		{"-unheard-of"},
		{"now"},
	} {
		var errs bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), args, io.Discard, &errs), "%q", args)
		assert.NotEmpty(t, errs.String(), "%q", args)
	}
}

func TestADirectoryWithSomebodysFilesIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, journalFile), nil, 0o600))
	var errs bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), []string{"-dir", dir}, io.Discard, &errs))
	assert.Contains(t, errs.String(), "not empty")
}

func TestThereAreTwoHundredInvoicesAndNoTwoOfOneName(t *testing.T) {
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
