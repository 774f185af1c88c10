package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Resume works off pending operations beside completed ones.
func TestResumeSendsTheBacklog(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-dir", t.TempDir(), "-pending", "200", "-beside", "100", "-concurrency", "8"}, &out))
	assert.Contains(t, out.String(), "foreground: 200 operations by 8 callers")
	assert.Contains(t, out.String(), "resume: 200 operations")
}

// An operation that took effect twice is counted.
func TestSecondEffectIsCounted(t *testing.T) {
	b := &box{effects: map[string]int{"a": 1, "b": 2, "c": 3}}
	assert.Equal(t, 2, b.doubled())
}
