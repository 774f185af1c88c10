package providertest_test

import (
	"io"
	"log"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func TestStraggler(t *testing.T) {
	t.Run("executed later, without a client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := providertest.NewServerInMemory(providers.Stripe(), charging)
			defer srv.Close()
			srv.Script(providertest.Straggle(time.Hour))
			_, err := charged(t, srv, "k")
			require.Error(t, err)
			srv.Advance(59 * time.Minute)
			srv.AssertEffects(t, "k", 0)
			assert.Contains(t, srv.Ledger(), "is still on its way")
			due := srv.Now().Add(time.Minute)
			srv.Advance(5 * time.Minute)
			srv.AssertOneEffect(t, "k")
			assert.Equal(t, due, srv.Effects()[0].At, "at its own time, not at the end of the advance")
		})
	})
	t.Run("in virtual time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := providertest.NewServerInMemory(providers.Stripe(), charging)
			defer srv.Close()
			srv.Script(providertest.Straggle(time.Hour), providertest.Straggle(time.Minute))
			sent := time.Now()
			for _, key := range []string{"late", "soon"} {
				_, err := charged(t, srv, key)
				require.Error(t, err)
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			require.Len(t, srv.Effects(), 2)
			assert.Equal(t, "soon", srv.Effects()[0].Key)
			assert.Equal(t, sent.Add(time.Minute), srv.Effects()[0].At)
			assert.Equal(t, sent.Add(time.Hour), srv.Effects()[1].At)
		})
	})
	t.Run("the first request under the key has the effect", func(t *testing.T) {
		srv := providertest.NewServer(providers.Stripe(), charging)
		defer srv.Close()
		srv.Script(providertest.Straggle(time.Hour))
		_, err := charged(t, srv, "k")
		require.Error(t, err)
		_, err = charged(t, srv, "k")
		require.NoError(t, err)
		srv.Advance(time.Hour)
		srv.AssertOneEffect(t, "k")
		assert.Contains(t, srv.Ledger(), "replayed: 200, for nobody")
	})
	t.Run("beyond the retention it is a second effect", func(t *testing.T) {
		srv := providertest.NewServer(providers.Stripe(), charging)
		defer srv.Close()
		srv.Script(providertest.Straggle(25 * time.Hour))
		_, err := charged(t, srv, "k")
		require.Error(t, err)
		_, err = charged(t, srv, "k")
		require.NoError(t, err)
		srv.Advance(25 * time.Hour)
		srv.AssertEffects(t, "k", 2)
	})
	t.Run("a closed server executes nothing any more", func(t *testing.T) {
		srv := providertest.NewServer(providers.Stripe(), charging)
		srv.Script(providertest.Straggle(time.Hour))
		_, err := charged(t, srv, "k")
		require.Error(t, err)
		srv.Close()
		srv.Advance(2 * time.Hour)
		srv.AssertEffects(t, "k", 0)
	})
	t.Run("a handler that panics", func(t *testing.T) {
		srv := providertest.NewUnstartedServer(providers.Stripe(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("business") }))
		srv.ErrorLog = log.New(io.Discard, "", 0)
		srv.Start()
		defer srv.Close()
		srv.Script(providertest.Straggle(time.Hour))
		_, err := charged(t, srv, "k")
		require.Error(t, err)
		srv.Advance(time.Hour)
		srv.AssertEffects(t, "k", 0)
		assert.Contains(t, srv.Ledger(), "the handler panicked")
	})
}
