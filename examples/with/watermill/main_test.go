package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func TestEachMessageIsDoneOnce(t *testing.T) {
	database := postgrestest.Start(t).URL()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), database, 15, &out))
	// Five are published twice, three are delivered again after a failure, and all 20 once more to the second group.
	for _, row := range []string{`messages +15`, `published, some of them twice +20`, `deliveries +43`, `done +15`, `rows in the ledger +15`} {
		assert.Regexp(t, `(?m)^`+row+`$`, out.String())
	}
}
