package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/server"
)

// An answer without a key is given once only, so a handler may compress it: its calls have been made.
func TestAnswerWithoutAKeyMayBeCompressed(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	h := c.server.Repeatable("charges.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
		}
		c.charges(w, r)
	}), server.Endpoint{Optional: true})
	got := ask(h, "POST", "/charges", "1", with("Accept-Encoding", "gzip"))
	assert.Equal(t, http.StatusCreated, got.Code)
	assert.Equal(t, "gzip", got.Header().Get("Content-Encoding"))
	assert.Len(t, c.provider.Effects(), 1)
}
