package wire_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
)

const form = "application/x-www-form-urlencoded"

// A body that only looks like an object with a grant is no token request.
func TestTokenRequestIsAnObject(t *testing.T) {
	as := func(body string) bool {
		return wire.IsTidyTokenRequest(http.MethodPost, tables.Message{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)})
	}
	assert.True(t, as(`{"grant_type":"password","username":"a"}`))
	for _, body := range []string{`["grant_type","password"]`, `"grant_type"`, ``, `{"grant_type":"password"`, `{"grant_type":"password"}{}`, `{"grant_type":"password"]`} {
		assert.False(t, as(body), body)
	}
}

// A tidy token request is nothing else: it holds a secret, and has no field of another request.
func FuzzTokenRequestIsNothingElse(f *testing.F) {
	f.Add(form, "grant_type=client_credentials&client_secret=a")
	f.Add(form+"; charset=utf-8", "grant_type=refresh_token&refresh_token=a")
	f.Add(form+"; a", "grant_type=password&password=a")
	f.Add(form, "grant_type=password;scope=a&password=a")
	f.Add(form, "%67rant_type=password&grant_type=a&password=a")
	f.Add(form, "grant_type=password&amount=100&password=a")
	f.Add(form, `{"grant_type":"password","password":"a"}`)
	f.Add("application/json", `{"grant_type":"client_credentials","client_id":"a","client_secret":"b","audience":"c"}`)
	f.Add("application/json", `{"grant_type":"password","resource":["a","b"],"password":"c"}`)
	f.Add("application/json", `{"grant_type":"password","amount":100,"password":"a"}`)
	f.Add("application/json", `{"grant\u005ftype":"password","password":"a"}`)
	f.Add("application/json", `{"grant_type":"password","password":"a"`)
	f.Add("application/json", `{"a""grant_type":"password","password":"a"}`)
	f.Add(form, "grant_type=a&GRANT_TYPE=b")
	f.Add("application/json", `{"grant_type":"a","scope":["b"],"\u0067rant_type":"c"}`)
	f.Fuzz(func(t *testing.T, contentType, body string) {
		m := tables.Message{Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body)}
		if !wire.IsTidyTokenRequest(http.MethodPost, m) {
			return
		}
		var unlisted tables.Route
		require.True(t, unlisted.Secrets(m).Found)
		if strings.HasPrefix(contentType, form) {
			values, err := url.ParseQuery(body)
			require.NoError(t, err)
			require.False(t, values.Has("amount"))
		}
		var members map[string]any
		if json.Unmarshal([]byte(body), &members) == nil {
			require.NotContains(t, members, "amount")
		}
	})
}
