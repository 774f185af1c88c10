package tables_test

import (
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func TestACredentialShowsItsModeByItsPrefix(t *testing.T) {
	p := providers.Provider{CredentialModes: []providers.CredentialMode{
		{Prefix: "sk_", Mode: "some"}, {Prefix: "sk_test_", Mode: "test"}, {Prefix: "sk_live_", Mode: "live"},
	}}
	basic := func(userAndPassword string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(userAndPassword))
	}
	for _, tc := range []struct {
		name   string
		header http.Header
		mode   string
	}{
		{"a bearer token", http.Header{"Authorization": {"Bearer sk_test_1"}}, "test"},
		{"a bearer token in another spelling", http.Header{"authorization": {" bearer   sk_live_1"}}, "live"},
		{"the longest prefix counts", http.Header{"Authorization": {"Bearer sk_1"}}, "some"},
		{"a user", http.Header{"Authorization": {basic("sk_live_1:")}}, "live"},
		{"a user without a password", http.Header{"Authorization": {basic("sk_live_1")}}, "live"},
		{"a user without padding", http.Header{"Authorization": {"Basic " + base64.RawStdEncoding.EncodeToString([]byte("sk_live_1:"))}}, "live"},
		{"a password", http.Header{"Authorization": {basic("organisation:sk_test_1")}}, "test"},
		{"a bare key", http.Header{"Authorization": {"sk_live_1"}}, "live"},
		{"a key in a header of its own", http.Header{"X-Api-Key": {"sk_live_1"}}, "live"},
		{"another header of that kind", http.Header{"Api-Key": {" sk_test_1"}}, "test"},
		{"Authorization before other headers", http.Header{"X-Api-Key": {"sk_live_1"}, "Authorization": {"Bearer sk_test_1"}}, "test"},
		{"the first of two headers that shows one", http.Header{"Api-Key": {"sk_live_1"}, "X-Api-Key": {"sk_test_1"}, "Authorization": {"Bearer 1"}}, "test"},
		{"the first of two lines that shows one", http.Header{"X-Api-Key": {"1", "sk_test_1", "sk_live_1"}}, "test"},
		{"no prefix that is known", http.Header{"Authorization": {"Bearer rk_test_1"}}, ""},
		{"a prefix in the middle", http.Header{"Authorization": {"Bearer x_sk_test_1"}}, ""},
		{"malformed base64", http.Header{"Authorization": {"Basic sk_test_1!"}}, ""},
		{"no credential", http.Header{"Idempotency-Key": {"sk_test_1"}, "X-Note": {"sk_live_1"}}, ""},
		{"nothing", nil, ""},
	} {
		assert.Equal(t, tc.mode, tables.Mode(&p, tc.header), tc.name)
	}
	var none *providers.Provider
	assert.Empty(t, tables.Mode(none, http.Header{"Authorization": {"Bearer sk_test_1"}}))
	assert.Empty(t, tables.Mode((&providers.Provider{}), http.Header{"Authorization": {"Bearer sk_test_1"}}))
}
