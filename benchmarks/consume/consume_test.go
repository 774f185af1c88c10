package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func TestReport(t *testing.T) {
	postgrestest.Start(t) // if there is no PostgreSQL, the test is skipped
	var out strings.Builder
	require.NoError(t, run(t.Context(), strings.Fields("-workers 2 -together 3 -repetitions 1 -duration 10ms"), &out))
	for _, name := range []string{"| by hand ", "| Do ", "| by hand, 3 together ", "| InOrder, 3 together "} {
		assert.Contains(t, out.String(), name)
	}
	require.Error(t, run(t.Context(), []string{"-workers", "x"}, nil))
}
