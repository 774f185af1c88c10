package promises_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/seal"
)

// A key is rotated in one step. The process that lacks the new key tells its callers that the journal failed, and never
// that a name is another request's, since that advises another name. The person's decision needs no key.
func TestACallerWithoutTheKeyPaysOnce(t *testing.T) {
	srv := oncetest.Serving(t, providers.Stripe(), nil)
	path := filepath.Join(t.TempDir(), "journal.db")
	process := func(ids ...string) *process {
		var keys []seal.Key
		for _, id := range ids {
			keys = append(keys, seal.Key{ID: id, Secret: bytes.Repeat([]byte(id), seal.SecretSize/2)})
		}
		ring, err := seal.NewRing(keys...)
		require.NoError(t, err)
		j, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: ring})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		return oncetest.Calling(t, srv, onceward.Config{Journal: j})
	}
	first, second := process("k1"), process("k2", "k1")
	require.NoError(t, second.Ask(named(t, "invoice"), oncetest.Charging(srv)).Err)

	for range 2 {
		out := first.Ask(named(t, "invoice"), oncetest.Charging(srv))
		require.ErrorIs(t, out.Err, onceward.ErrJournal)
		require.ErrorIs(t, out.Err, journal.ErrSealed)
		assert.ErrorContains(t, out.Err, `"k2"`)
	}
	assert.Len(t, srv.Effects(), 1)

	require.NoError(t, second.Ask(named(t, "invoice"), oncetest.Charging(srv)).Err)
	require.NoError(t, process("k1", "k2").Ask(named(t, "invoice"), oncetest.Charging(srv)).Err, "once it has the key")
	assert.Len(t, srv.Effects(), 1)
}
