package providertest_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// charging is a business that answers every charge alike.
var charging = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"ch_1"}`)
})

// charged sends a charge under a key, on a connection of its own.
func charged(t *testing.T, srv *providertest.Server, key string) (status int, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/charges", strings.NewReader("amount=10&currency=eur"))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Close = true
	resp, err := srv.Client().Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	return resp.StatusCode, err
}

func TestInMemory(t *testing.T) {
	t.Parallel()
	t.Run("a retention passes in virtual time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := providertest.NewServerInMemory(providers.Stripe(), charging)
			defer srv.Close()
			for range 2 {
				status, err := charged(t, srv, "k")
				require.NoError(t, err)
				assert.Equal(t, http.StatusOK, status)
			}
			srv.AssertOneEffect(t, "k")
			time.Sleep(24 * time.Hour)
			_, err := charged(t, srv, "k")
			require.NoError(t, err)
			srv.AssertEffects(t, "k", 2)
		})
	})
	t.Run("a delay of an hour", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := providertest.NewServerInMemory(providers.Stripe(), charging)
			defer srv.Close()
			srv.Script(providertest.DelayBefore(time.Hour))
			before := time.Now()
			_, err := charged(t, srv, "k")
			require.NoError(t, err)
			assert.Equal(t, time.Hour, time.Since(before), "on the virtual clock")
		})
	})
	t.Run("connections break as they do on the network", func(t *testing.T) {
		for _, how := range []struct {
			name  string
			fault providertest.Fault
			reset bool
			made  int
		}{
			{"drop before", providertest.DropBefore(), true, 0},
			{"drop after", providertest.DropAfter(), true, 1},
			{"drop after, by a close", providertest.DropAfter().ByClose(), false, 1},
			{"cut", providertest.CutAt(3), false, 1},
			{"cut in the head", providertest.CutResponseAt(20), false, 1},
			{"cut request", providertest.CutRequestAt(3), true, 0},
		} {
			t.Run(how.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := providertest.NewServerInMemory(providers.Stripe(), charging)
					defer srv.Close()
					srv.Script(how.fault)
					_, err := charged(t, srv, "k")
					require.Error(t, err)
					assert.Equal(t, how.reset, errors.Is(err, syscall.ECONNRESET), "%v", err)
					srv.AssertEffects(t, "k", how.made)
				})
			})
		}
	})
	t.Run("TLS and HTTP/2", func(t *testing.T) {
		for _, secured := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				srv := providertest.NewUnstartedServerInMemory(providers.Stripe(), charging)
				srv.EnableHTTP2 = true
				if secured {
					srv.StartTLS()
				} else {
					srv.Start()
				}
				defer srv.Close()
				resp, err := srv.Client().Get(srv.URL + "/v1/charges")
				require.NoError(t, err)
				defer resp.Body.Close()
				assert.Equal(t, 2, resp.ProtoMajor)
				assert.Equal(t, secured, resp.TLS != nil)
			})
		}
	})
	t.Run("two servers have a host each", func(t *testing.T) {
		one, two := providertest.NewServerInMemory(providers.Stripe(), charging), providertest.NewServerInMemory(providers.Stripe(), charging)
		defer one.Close()
		defer two.Close()
		assert.NotEqual(t, one.URL, two.URL)
		_, err := charged(t, one, "k")
		require.NoError(t, err)
		assert.Len(t, one.Effects(), 1)
		assert.Empty(t, two.Effects())
	})
	t.Run("a closed server refuses", func(t *testing.T) {
		srv := providertest.NewServerInMemory(providers.Stripe(), charging)
		srv.Close()
		_, err := charged(t, srv, "k")
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
	t.Run("a plain handler", func(t *testing.T) {
		srv := providertest.ServeInMemory(charging)
		defer srv.Close()
		resp, err := srv.Client().Get(srv.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, http.StatusOK, resp.StatusCode)
	})
}
