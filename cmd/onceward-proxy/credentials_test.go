package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// One process serves Adyen, whose keys are in a header of their own, and PayPal, whose access tokens expire. A caller of
// PayPal logs in as its SDK does, and goes on with the proxy's token after the proxy is killed.
func TestAdyenAndPayPal(t *testing.T) {
	s := open(t, nil)
	s.listeners = 2
	var seen []string // credentials, as the providers got them
	objects := providertest.Objects("id_")
	business := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/oauth2/token" {
			seen = append(seen, r.Header.Get("Authorization")+r.Header.Get("X-API-Key"))
			objects.ServeHTTP(w, r)
			return
		}
		assert.Equal(t, "Basic Y2xpZW50OnNlY3JldA==", r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{"access_token":"A21AA","token_type":"Bearer","expires_in":32400}`)
	})
	adyen, paypal := providertest.NewServer(providers.Adyen(""), business), providertest.NewServer(providers.PayPal(), business)
	defer adyen.Close()
	defer paypal.Close()
	t.Setenv("ADYEN_KEY", "AQEyhmfxLI3MaBFLw0m")
	t.Setenv("PAYPAL_CLIENT", "client:secret")
	text, err := json.Marshal(map[string]any{"journal": filepath.Join(s.dir, "payments.db"), "secret": "env:PROXY_SECRET", "listen": []map[string]any{
		{"socket": filepath.Join(s.dir, "adyen"), "upstream": adyen.URL, "provider": "adyen", "scope": "shop", "credentials": []string{"env:ADYEN_KEY"}},
		{"socket": filepath.Join(s.dir, "paypal"), "upstream": paypal.URL, "provider": "paypal", "scope": "shop", "credentials": []string{"env:PAYPAL_CLIENT"}},
	}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.file, text, 0o600))

	call := func(socket, path, contentType, body, header, credential string) (status int, answer map[string]any) {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(s.dir, socket))
		}}}
		r, err := http.NewRequest(http.MethodPost, viaSocket+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Onceward-Operation", "invoice-1/"+socket)
		r.Header.Set(header, credential)
		resp, err := c.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
		return resp.StatusCode, answer
	}
	const order = `{"intent":"CAPTURE"}`
	p := s.start(t, "--new")
	_, answer := call("paypal", "/v1/oauth2/token", "application/x-www-form-urlencoded", "grant_type=client_credentials", "Authorization", "Basic Y2xpZW50OnNlY3JldA==")
	token, _ := answer["access_token"].(string)
	require.NotEmpty(t, token)
	_, first := call("paypal", "/v2/checkout/orders", "application/json", order, "Authorization", "Bearer "+token)
	require.NotEmpty(t, first["id"])
	require.NoError(t, p.Process.Kill())
	<-p.ended
	s.start(t)
	_, again := call("paypal", "/v2/checkout/orders", "application/json", order, "Authorization", "Bearer "+token)
	assert.Equal(t, first, again)
	status, _ := call("adyen", "/v71/payments", "application/json", order, "X-API-Key", "AQEyhmfxLI3MaBFLw0m")
	assert.Equal(t, http.StatusOK, status)
	status, _ = call("adyen", "/v71/payments", "application/json", order, "Authorization", "Bearer AQEyhmfxLI3MaBFLw0m")
	assert.Equal(t, http.StatusForbidden, status)
	assert.Equal(t, []string{"Bearer A21AA", "AQEyhmfxLI3MaBFLw0m"}, seen)
}
