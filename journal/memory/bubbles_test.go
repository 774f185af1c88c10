package memory_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

type answers struct{ http.Handler }

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, req)
	return w.Result(), nil
}

// Two tests of a program, each in a bubble of its own, keep large bodies in a journal in memory.
func TestLargeBodiesInSeveralBubbles(t *testing.T) {
	large := `{"note":"` + strings.Repeat("paid ", 4_000) + `"}`
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			j := memory.New()
			client, err := onceward.New(onceward.Config{
				Journal: j, Providers: []providers.Provider{providers.Raw(24 * time.Hour)},
				HTTPClient: &http.Client{Transport: answers{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"id":"ch_1"}`)) })}},
			})
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(onceward.WithOperation(t.Context(), "invoice-991/charge"), "POST", "https://api.example.com/v1/charges", strings.NewReader(large))
			require.NoError(t, err)
			resp, err := client.HTTPClient().Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			op, err := j.Get(t.Context(), journal.Ref{ID: "invoice-991/charge"})
			require.NoError(t, err)
			assert.Equal(t, large, string(op.Request.Body))
			require.NoError(t, client.Shutdown(t.Context()))
			require.NoError(t, j.Close())
		})
	}
}
