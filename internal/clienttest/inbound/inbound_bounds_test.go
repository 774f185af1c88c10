package inbound_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/server"
)

// An inbound request that reaches two processes at once has one effect.
func TestInboundRequestAtTwoProcesses(t *testing.T) {
	virtual(t, "each of its calls is made by one of them", func(t *testing.T) {
		l, j := (&line{}).Always(takes(time.Second, says(200, paid))), memory.New()
		cfg := onceward.Config{Journal: j, Secret: []byte("0123456789abcdef")}
		var wg sync.WaitGroup
		outs := make([][2]outcome, 2)
		for i := range outs {
			p := startFlows(t, l, cfg)
			ctx := p.Keyed("k-1")
			wg.Go(func() { outs[i] = [2]outcome{p.Ask(ctx), p.Ask(ctx)} })
		}
		wg.Wait()
		for i := range outs {
			require.NoError(t, outs[i][0].Err)
			require.NoError(t, outs[i][1].Err)
			assert.Equal(t, outs[0][0].Op.Key, outs[i][0].Op.Key)
			assert.Equal(t, outs[0][1].Op.Key, outs[i][1].Op.Key)
		}
		assert.Len(t, l.Sent(), 2)
		assert.Len(t, distinct(l.Keys()), 2)
	})
	virtual(t, "on two journals, they send the same keys", func(t *testing.T) {
		l := &line{}
		for range 2 {
			p := startFlows(t, l, onceward.Config{Secret: []byte("0123456789abcdef")})
			ctx := p.Keyed("k-1")
			require.NoError(t, p.Ask(ctx).Err)
			require.NoError(t, p.Flow(ctx, "order-991", nil, p.Sequence("charge")))
		}
		assert.Len(t, l.Sent(), 4)
		assert.Len(t, distinct(l.Keys()), 2)
	})
}

func TestTheSameFlowOfTwoTenantsIsTwo(t *testing.T) {
	virtual(t, "even under the same inbound key", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Secret: []byte("0123456789abcdef")})
		for _, tenant := range []string{"tenant-1", "tenant-2"} {
			ctx := p.Arrives("Idempotency-Key", "k-1", "Tenant", tenant)
			require.NoError(t, p.Flow(ctx, "order-991", nil, p.Sequence("charge")))
			require.NoError(t, p.Flow(ctx, "order-991", nil, p.Sequence("charge")))
		}
		assert.Len(t, l.Sent(), 2)
		assert.Len(t, distinct(l.Keys()), 2)
	})
}

func TestAnInboundGetWithAKeyIsAParentToo(t *testing.T) {
	virtual(t, "of its calls with an effect", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Secret: []byte("0123456789abcdef")})
		inbound, err := server.Inbound(p.Client, ofTenant, server.InboundOptions{})
		require.NoError(t, err)
		served := inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			assert.NoError(t, p.Ask(r.Context()).Err)
		}))
		for range 2 {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/orders", nil)
			req.Header.Set("Idempotency-Key", "k-1")
			served.ServeHTTP(httptest.NewRecorder(), req)
		}
		assert.Len(t, l.Sent(), 1)
	})
}
