package providers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// A caller who asks again has to send another ciphertext. Requests that differ only in it are the same operation. A
// request with another amount is not.
func TestCircleComparesNoCiphertext(t *testing.T) {
	srv := providertest.NewServerInMemory(providers.Circle(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":{"id":"t_1","state":"INITIATED"}}`)
	}))
	defer srv.Close()
	client, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{srv.Provider()}, HTTPClient: srv.Client()})
	require.NoError(t, err)
	defer client.Shutdown(t.Context())
	pay := func(ciphertext, amount string) (string, error) {
		body := `{"refId":"991","destinationAddress":"0x1","amounts":["` + amount + `"],"entitySecretCiphertext":"` + ciphertext + `"}`
		ctx := onceward.WithOperation(t.Context(), "invoice-991/transfer")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/v1/w3s/developer/transactions/transfer", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.HTTPClient().Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		return string(answer), err
	}
	first, err := pay("first-ciphertext", "10")
	require.NoError(t, err)
	again, err := pay("second-ciphertext", "10")
	require.NoError(t, err)
	assert.Equal(t, first, again)
	_, err = pay("third-ciphertext", "11")
	require.ErrorIs(t, err, onceward.ErrKeyReused)
	assert.Len(t, srv.Effects(), 1)
}
