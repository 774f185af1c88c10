package secret_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/secret"
)

// What approves one request is withheld and nobody's credential.
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
}
