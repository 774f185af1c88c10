package providertest_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// onceOnly takes two orders with one reference for one, for a day.
func onceOnly(concurrent bool, refused providers.Rule) providers.Provider {
	return providers.Provider{
		Name: "shop", Hosts: []string{"shop.example.com"}, Source: "made up",
		Endpoints: []providers.Endpoint{{
			Pattern: "POST /orders", Object: "order",
			Reference: providers.Reference{Place: providers.KeyJSONField, Name: "ref", Source: "made up"},
			Unique:    providers.Unique{For: 24 * time.Hour, Concurrent: concurrent, Refused: refused, Source: "made up"},
			Source:    "made up",
		}},
	}
}

func (b lookBox) orders(reference string) (status int, text string) {
	b.t.Helper()
	resp, err := b.do("POST", "/orders", "", fmt.Sprintf(`{"ref":%q}`, reference))
	require.NoError(b.t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return resp.StatusCode, string(all)
}

func TestUniqueReferencesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := looking(t, onceOnly(true, providers.Rule{}))
		status, text := b.orders("a")
		again, same := b.orders("a")
		assert.Equal(t, status, again)
		assert.Equal(t, text, same)
		_, other := b.orders("b")
		assert.NotEqual(t, text, other)
		b.orders("")
		b.orders("")
		assert.Len(t, b.Effects(), 4, "what has no reference is not merged")
		time.Sleep(24 * time.Hour)
		b.orders("a")
		assert.Len(t, b.Effects(), 5, "after a day it is forgotten")
	})
}

func TestUniqueReferencesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := providers.Rule{Status: 409, Field: "error.code", Equals: "dup", Pointer: "error.id", Verdict: providers.AlreadyDone, Source: "made up"}
		b := looking(t, onceOnly(true, refused))
		b.orders("a")
		status, text := b.orders("a")
		assert.Equal(t, http.StatusConflict, status)
		assert.Contains(t, text, `"code":"dup"`)
		assert.Contains(t, text, `"id":"obj_1"`)
		assert.Len(t, b.Effects(), 1)
	})
}

func TestUniqueReferencesAtOnce(t *testing.T) {
	for _, concurrent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := onceOnly(concurrent, providers.Rule{})
			srv := providertest.NewUnstartedServerInMemory(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				providertest.Objects("obj_").ServeHTTP(w, r)
			}))
			srv.Start()
			t.Cleanup(srv.Close)
			b := lookBox{srv, t, http.Header{}}
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { b.orders("a") })
			}
			wg.Wait()
			want := 3
			if concurrent {
				want = 1
			}
			assert.Len(t, b.Effects(), want)
		})
	}
}
