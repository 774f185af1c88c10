package server

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/fingerprint"
)

// Large requests are compared a few at a time, since each may take a hundred times its size in memory. A small one does not wait for them.
func TestLargeRequestsAreComparedAFewAtATime(t *testing.T) {
	t.Parallel()
	s := &Server{opts: Options{Secrets: [][]byte{[]byte("0123456789abcdef")}}, comparing: make(chan struct{}, largeAtOnce)}
	for range largeAtOnce {
		s.comparing <- struct{}{}
	}
	over, cancel := context.WithCancel(t.Context())
	large := fingerprint.Input{ContentType: "application/json", Body: []byte(`"` + strings.Repeat("x", largeRequest) + `"`)}
	small := fingerprint.Input{ContentType: "application/json", Body: large.Body[:largeRequest]}
	_, err := s.printsOf(over, small, "")
	require.NoError(t, err)
	cancel()
	_, err = s.printsOf(over, large, "")
	require.ErrorIs(t, err, context.Canceled, "it waits, as long as its request may take")
	<-s.comparing
	_, err = s.printsOf(t.Context(), large, "")
	require.NoError(t, err)
	assert.Len(t, s.comparing, largeAtOnce-1, "the next one may be compared")
}
