package inbound_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

// A parent below an inbound request belongs to the request's tenant.
func TestInboundParentIsItsTenants(t *testing.T) {
	parent := onceward.Key("01890a5d-ac96-774b-bcce-b302099a8057")
	for _, row := range []struct {
		name   string
		method string
		header []string
	}{
		{"a GET without a key", http.MethodGet, nil},
		{"a POST without a key", http.MethodPost, nil},
		{"a POST with one", http.MethodPost, []string{"Idempotency-Key", "k-1"}},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Secret: testSecret})
			for _, tenant := range []string{"tenant-1", "tenant-2", "tenant-1"} {
				ctx := onceward.WithParent(p.ArrivesBy(row.method, append(row.header, "Tenant", tenant)...), parent)
				by := p.Ask(onceward.WithOperation(ctx, "charge"))
				require.NoError(t, by.Err)
				assert.Equal(t, onceward.Ref{Scope: tenant, Parent: string(parent), ID: "charge"}, by.Op.Ref)
				unnamed := p.Ask(ctx)
				require.NoError(t, unnamed.Err)
				assert.Equal(t, tenant, unnamed.Op.Scope)
				require.NoError(t, p.Flow(ctx, "order-991", nil, p.Sequence("ship")))
				assert.ErrorIs(t, p.Ask(onceward.WithOperation(onceward.WithScope(ctx, "tenant-3"), "charge")).Err, onceward.ErrInvalidRequest)
			}
			assert.Len(t, l.Sent(), 6, "each tenant's are its own")
			assert.Len(t, distinct(l.Keys()), 6)
		})
	}
}
