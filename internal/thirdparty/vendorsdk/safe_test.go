package vendorsdk_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

// If its own retries are off, as README asks, the reads of stripe-go get ours.
func TestStripeGoReadsAreRetried(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			says(http.StatusServiceUnavailable, apiError)(w, r)
			return
		}
		says(http.StatusOK, `{"id":"pi_1","object":"payment_intent"}`)(w, r)
	}))
	t.Cleanup(srv.Close)
	p := stripeGo.start(t, filepath.Join(t.TempDir(), "journal.db"), srv.URL, ours)
	intent, err := stripeClient(p.HTTPClient(), srv.URL, false).V1PaymentIntents.Retrieve(t.Context(), "pi_1", nil)
	require.NoError(t, err)
	assert.Equal(t, "pi_1", intent.ID)
	assert.EqualValues(t, 3, asked.Load())
	for op := range p.Operations(t.Context(), onceward.Filter{}) {
		assert.Fail(t, "recorded: "+op.ID)
	}
}
