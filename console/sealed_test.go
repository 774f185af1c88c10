package console_test

import (
	"bytes"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/seal"
)

// A console without the key names the key in place of each payload, and offers nothing that needs one. With the key, the
// console shows payloads as in a journal in clear.
func TestSealedJournal(t *testing.T) {
	ring, err := seal.NewRing(seal.Key{ID: "k1", Secret: bytes.Repeat([]byte("k1"), seal.SecretSize/2)})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "sealed.db")
	writes, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: ring})
	require.NoError(t, err)
	t.Cleanup(func() { _ = writes.Close() })
	_, err = planted.Plant(t.Context(), writes, time.Now())
	require.NoError(t, err)
	require.NoError(t, planted.PlantReceipts(t.Context(), writes, time.Now().Add(-time.Hour), 7*24*time.Hour))
	op, err := writes.Get(t.Context(), journal.Ref{ID: planted.Completed})
	require.NoError(t, err)
	handle := strconv.FormatInt(op.Handle, 10)

	over := func(ring *seal.Ring) *site {
		j, err := sqlite.Open(path, sqlite.Options{ReadOnly: true, Seal: ring})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		return open(t, "/", func(o *console.Options) { o.Journal = j })
	}
	with, without := over(ring), over(nil)
	for _, one := range []struct{ page, sealed, clear string }{
		{"operation?h=" + handle, "sealed by <code>k1</code>", "api.stripe.com/v1/charges"},
		{"flows", "its cause is sealed by k1", "no stock"},
		{"attention", "its cause is sealed by k1", "no stock"},
		{"flow?name=" + planted.SetAside, "sealed by <code>k1</code>", "no stock"},
		{"receipt?h=1", "sealed by <code>k1</code>", "Reveal"},
	} {
		got := without.get(one.page)
		require.Equal(t, http.StatusOK, got.StatusCode, one.page)
		assert.Contains(t, got.text, one.sealed, one.page)
		assert.NotContains(t, got.text, one.clear, one.page)
		got = with.get(one.page)
		assert.Contains(t, got.text, one.clear, one.page)
		assert.NotContains(t, got.text, "ealed by", one.page)
	}
	assert.NotContains(t, without.get("flow?name="+planted.SetAside).text, `action="retry"`)
	for _, path := range []string{"reveal", "revealreceipt"} {
		got := without.post(path, url.Values{"h": {handle}, "because": {"ticket 7"}})
		assert.Equal(t, http.StatusConflict, got.StatusCode, path)
		assert.Contains(t, got.text, "lacks the key")
	}
	assert.NotContains(t, without.log.String(), "revealed")
	got := with.post("reveal", url.Values{"h": {handle}, "because": {"ticket 7"}})
	assert.Contains(t, got.text, "amount = 2000")
}
