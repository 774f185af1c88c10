package secret_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/secret"
)

// A field that approves a single request is withheld, and is no credential.
func TestOneTimeApprovalIsWithheld(t *testing.T) {
	for _, name := range []string{"x-2fa-approval", "X-2FA-Approval", "X-MFA-Code", "Two-Factor-Code", "X-Second-Factor", "X-GitHub-OTP", "totp"} {
		assert.True(t, secret.OneTime(name), name)
		assert.True(t, secret.Header(name), name)
		assert.False(t, secret.Counts(name), name)
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Stripe-Account", "Option", "Idempotency-Key", "Date"} {
		assert.False(t, secret.OneTime(name), name)
	}
}

// A request is signed by a field of its header or of its query, and by a digest of its body.
func TestSignedRequests(t *testing.T) {
	for _, row := range []struct {
		name, value, query string
		signed             bool
	}{
		{"Digest", "sha-256=abc", "", true},
		{"Content-Digest", "sha-256=:abc:", "", true},
		{"Content-MD5", "abc", "", true},
		{"X-Amz-Content-SHA256", "abc", "", true},
		{"X-Signature", "abc", "", true},
		{"Authorization", "AWS4-HMAC-SHA256 Credential=x, Signature=y", "", true},
		{"Proxy-Authorization", "Hawk id=x", "", true},
		{"Authorization", "Bearer abc", "", false},
		{"Authorization", "Bearer abc", "page=1&X-Amz-Signature=s", true},
		{"Accept", "*/*", "%73ig=s", true},
		{"Accept", "*/*", "%zzsig=s&a", false},
		{"Accept", "*/*", "signed=1&", false},
		{"1", "2", "3=4", false},
	} {
		assert.Equal(t, row.signed, secret.Signed(http.Header{row.name: {row.value}}, row.query), row)
	}
	assert.False(t, secret.Signed(nil, ""))
}

func TestADateGoesWithTheSignatureBesideIt(t *testing.T) {
	for _, row := range []struct {
		signature, value string
		dated            bool
	}{
		{"Signature", "sig1=:abc=:", true},
		{"X-Signature", "abc", true},
		{"X-Hmac-Sha256", "abc", true},
		{"X-Request-Sig", "abc", true},
		{"X-Sign", "abc", true},
		{"Authorization", "AWS4-HMAC-SHA256 Credential=x, Signature=y", true},
		{"Authorization", `Signature keyId="x",signature="y"`, true},
		{"Authorization", "SharedKey account:abc", true},
		{"Authorization", "Bearer abc", false},
		{"Authorization", "Basic abc", false},
		{"Sign-In-Count", "7", false},
		{"X-Design", "plain", false},
	} {
		h := http.Header{"Date": {"today"}, "X-Amz-Date": {"today"}, "X-Request-Timestamp": {"1"}, "X-Nonce": {"n"}, "X-Candidate": {"c"}, "Update": {"u"}}
		h.Set(row.signature, row.value)
		want := []string{"Date", "X-Amz-Date", "X-Nonce", "X-Request-Timestamp"}
		if !row.dated {
			want = nil
		}
		assert.ElementsMatch(t, want, secret.Dated(h), row.signature+": "+row.value)
	}
	assert.Empty(t, secret.Dated(nil))
	assert.Empty(t, secret.Dated(http.Header{"1": {"2"}, "Signature": {"s"}}))
}
