package server_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/seal"
	"github.com/onceward/onceward/server"
)

// One process has the new key first, one has the old key alone, and one was started without keys. A process that lacks the
// key answers 503, whatever the request is: no answer is replayed, no key is called reused, and no handler runs.
func TestProcessesWithoutTheKeyOfAReceipt(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var log bytes.Buffer
	process := func(ids ...string) http.Handler {
		var keys []seal.Key
		for _, id := range ids {
			keys = append(keys, seal.Key{ID: id, Secret: bytes.Repeat([]byte(id), seal.SecretSize/2)})
		}
		ring, err := seal.NewRing(keys...)
		require.NoError(t, err)
		j, err := sqlite.Open(s.path, sqlite.Options{Volatile: true, Seal: ring.ReadClear()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		return s.another(func(o *server.Options) {
			o.Journal, o.Logger = j, slog.New(slog.NewTextHandler(&log, nil))
		}).Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	}
	none := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	require.Equal(t, http.StatusCreated, ask(none, "POST", "/payments", "1", keyed("key-in-clear")).Code)
	old, rotated := process("k1"), process("k2", "k1")
	require.Equal(t, http.StatusCreated, ask(old, "POST", "/payments", "1", keyed("key-of-old")).Code)
	require.Equal(t, http.StatusCreated, ask(rotated, "POST", "/payments", "1", keyed("key-of-new")).Code)

	for name, lacks := range map[string]struct {
		process http.Handler
		keys    []string
	}{
		"no keys": {none, []string{"key-of-old", "key-of-new", "key-of-nobody"}},
		"old key": {old, []string{"key-of-new"}},
	} {
		for _, key := range lacks.keys {
			for _, body := range []string{"1", "another request"} {
				got := ask(lacks.process, "POST", "/payments", body, keyed(key))
				assert.Equal(t, http.StatusServiceUnavailable, got.Code, "%s: %s: %s", name, key, got.Body)
				assert.Equal(t, "5", got.Header().Get("Retry-After"), name)
				assert.NotContains(t, got.Body.String(), "k2", "the caller learns nothing of the keys")
			}
		}
	}
	assert.Equal(t, 3, s.rows())
	assert.Contains(t, log.String(), `the key \"k2\"`, "the operator reads which key is missing")

	for _, key := range []string{"key-in-clear", "key-of-old", "key-of-new"} {
		got := ask(rotated, "POST", "/payments", "1", keyed(key))
		assert.Equal(t, http.StatusCreated, got.Code, key)
		assert.Equal(t, "true", got.Header().Get("Idempotent-Replayed"), key)
		assert.Equal(t, http.StatusUnprocessableEntity, ask(rotated, "POST", "/payments", "another request", keyed(key)).Code, key)
	}
	assert.Equal(t, http.StatusCreated, ask(old, "POST", "/payments", "1", keyed("key-of-old")).Code)
	assert.Equal(t, 3, s.rows())
}
