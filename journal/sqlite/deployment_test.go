package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// openAs opens the file for a deployment.
func openAs(t *testing.T, path, deployment string) *sqlite.Journal {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{Deployment: deployment})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// cloned is production's journal with a cancelled operation, and a copy of its whole folder.
func cloned(t *testing.T) (original, clone string) {
	t.Helper()
	original, clone = filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "journal.db")
	j := openAs(t, original, "prod")
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	cancel := complete(begun.Operation, s)
	cancel.Kind, cancel.Answer, cancel.Attempts = machine.EventCancel, nil, 0
	_, err = j.Apply(t.Context(), cancel)
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	for _, name := range filesOf(t, original) {
		copyFile(t, name, clone+strings.TrimPrefix(name, original))
	}
	return original, clone
}

// A clone of the whole folder looks intact, and is still refused under another deployment's name, or under none.
func TestCloneOfTheWholeFolder(t *testing.T) {
	_, clone := cloned(t)
	before := contents(t, clone)
	for _, deployment := range []string{"staging", ""} {
		_, err := sqlite.Open(clone, sqlite.Options{Deployment: deployment})
		require.ErrorIs(t, err, sqlite.ErrDeployment)
		for _, says := range []string{clone, `"prod"`, "AdoptAs"} {
			assert.ErrorContains(t, err, says)
		}
	}
	assert.Equal(t, before, contents(t, clone), "nothing of it was changed")
	goOn(t, openAs(t, clone, "prod"), "invoice-2")
}

// Read-only programs and an operator's programs need no deployment's name, and send nothing.
func TestReadersNeedNoDeployment(t *testing.T) {
	_, clone := cloned(t)
	for name, opts := range map[string]sqlite.Options{"read-only": {ReadOnly: true}, "existing": {Existing: true}} {
		t.Run(name, func(t *testing.T) {
			j, err := sqlite.Open(clone, opts)
			require.NoError(t, err)
			defer j.Close()
			assert.True(t, has(t, j, "invoice-1"))
			assert.Empty(t, verify(t, j))
			_, err = j.Join(t.Context())
			require.Error(t, err)
			if !opts.ReadOnly {
				require.ErrorIs(t, err, sqlite.ErrDeployment)
				assert.Empty(t, sessionFiles(t, clone))
			}
			opts.Deployment = "staging"
			_, err = sqlite.Open(clone, opts)
			require.ErrorIs(t, err, sqlite.ErrDeployment)
		})
	}
}

// A journal without a deployment's name works as before, until it gets one.
func TestDeploymentThatIsNamedLater(t *testing.T) {
	path, j, s := joined(t)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	named := openAs(t, path, "prod")
	goOn(t, named, "invoice-2")
	_, err = j.Apply(t.Context(), begin("invoice-3", s))
	require.NoError(t, err, "a session that was begun goes on")
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, sqlite.ErrDeployment)
	_, err = sqlite.Open(path, sqlite.Options{Deployment: "staging"})
	require.ErrorIs(t, err, sqlite.ErrDeployment)
	require.NoError(t, named.Close())
	require.NoError(t, j.Close())
	_, err = sqlite.Open(path, sqlite.Options{})
	require.ErrorIs(t, err, sqlite.ErrDeployment)
	goOn(t, openAs(t, path, "prod"), "invoice-4")
}

// A backup has the deployment's name too.
func TestDeploymentOfABackup(t *testing.T) {
	original, _ := cloned(t)
	copied := filepath.Join(t.TempDir(), "backup.db")
	require.NoError(t, openAs(t, original, "prod").Backup(t.Context(), copied))
	_, err := sqlite.Open(copied, sqlite.Options{Deployment: "staging"})
	require.ErrorIs(t, err, sqlite.ErrDeployment)
	j := openAs(t, copied, "prod")
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	goOn(t, j, "invoice-2")
}

// Only AdoptAs changes the name. Then operations without an answer count as sent, though the journal was intact.
func TestAdoptAs(t *testing.T) {
	original, clone := cloned(t)
	j, err := sqlite.Open(clone, sqlite.Options{Existing: true})
	require.NoError(t, err)
	require.NoError(t, j.Adopt(t.Context()), "it is whole, so that there is nothing to adopt")
	require.NoError(t, j.AdoptAs(t.Context(), "staging"))
	require.NoError(t, j.Close())
	_, err = sqlite.Open(clone, sqlite.Options{Deployment: "prod"})
	require.ErrorIs(t, err, sqlite.ErrDeployment)
	j = openAs(t, clone, "staging")
	op, err := j.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.NoError(t, err)
	assert.Equal(t, journal.StateUnknown, op.State)
	goOn(t, j, "invoice-2")
	assert.Empty(t, verify(t, j))
	op, err = openAs(t, original, "prod").Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.NoError(t, err)
	assert.Equal(t, journal.StateCancelled, op.State)
}
