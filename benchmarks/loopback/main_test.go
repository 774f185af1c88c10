package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryClientGetsChargesDone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(charge))
	t.Cleanup(server.Close)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			rate, err := measure(t.Context(), c, t.TempDir(), server.URL, 4, 50*time.Millisecond)
			require.NoError(t, err)
			assert.Positive(t, rate)
		})
	}
}

func TestARefusedChargeEndsTheMeasuring(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	_, err := measure(t.Context(), clients[0], t.TempDir(), server.URL, 2, time.Minute)
	require.ErrorContains(t, err, "status 404")
}
