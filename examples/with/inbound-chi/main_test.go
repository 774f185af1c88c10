package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachCallOfAnOrderTakesEffectOnce(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), filepath.Join(t.TempDir(), "orders.db"), &out))
	assert.Equal(t, `alice  key-1    order-991  – gave up
alice  key-1    order-991  200 order-991 is placed
alice  "key-1"  order-991  200 order-991 is placed
alice  key-1    order-992  422 the key was used for another order
bob    key-1    order-17   200 order-17 is placed
bob    key 2    order-18   400 {"title":"Bad Request","status":400,"detail":"The key in the Idempotency-Key header contains a character that is not visible ASCII."}
bob             order-19   400 {"title":"Bad Request","status":400,"detail":"The request needs a key in the Idempotency-Key header."}
effects at the provider: 6
`, out.String())
}
