package request_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

// A log line describes its operation.
func TestLogNamesTheOperation(t *testing.T) {
	var logged bytes.Buffer
	p := start(t, (&line{}).Then(refuses()), onceward.Config{Backoff: once, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.ErrorIs(t, p.Ask(onceward.WithScope(named(t, "order-1"), "shop-1")).Err, onceward.ErrPending)
	for _, part := range []string{"id=order-1", `request="POST ` + chargeURL + `"`, "scope=shop-1", "provider=stripe", `endpoint="POST /v1/charges"`, "state=pending", "generation=0", "claim=1"} {
		assert.Contains(t, logged.String(), "operation."+part)
	}
	assert.NotContains(t, logged.String(), "inbound_key", "it is no step of an inbound request")
}
