package secret_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/secret"
)

var credentials = []string{
	"Authorization", "Proxy-Authorization", "X-Authorization", "X-Amz-Authorization", "Authorisation",
	"Authentication", "X-Authenticated-User", "X-Auth", "X-Auth-Email", "X-Auth-Key", "X-Auth-Token", "auth", "oauth",
	"oauth_consumer", "oauth2", "authKey", "Authkey", "PayPal-Auth-Assertion", "DPoP",
	"Cookie", "Cookie2", "Set-Cookie", "X-Cookies",
	"token", "access_token", "accessToken", "accesstoken", "refresh_token", "id_token", "X-Access-Token", "auth[token]",
	"Private-Token", "Job-Token", "X-Shopify-Access-Token", "X-Vault-Token", "X-Amz-Security-Token", "token1",
	"client_secret", "clientSecret", "clientsecret", "X-Secret", "Secret-Key",
	"Api-Key", "X-Api-Key", "X-API-KEY", "x_api_key", "apikey", "apiKey", "ApiKey", "Apikey", "APIKey", "APIKEY",
	"X-Apikey", "api.key", "api key", "apiKey2", "api_keys", "key", "KEY", "X-Key", "DD-API-KEY", "DD-APPLICATION-KEY",
	"X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "subscription-key", "X-Functions-Key", "X-Master-Key",
	"AWSAccessKeyId", "access_key", "X-Access-Key", "accesskey", "private_key", "Privatekey", "Encryption-Key",
	"Signature", "X-Signature", "Signature-Input", "X-Hub-Signature-256", "X-Amz-Signature", "signature_v2", "sig", "Sig",
	"X-Request-Sig", "X-Hmac", "hmac", "X-Payload-HMAC-SHA256",
	"session", "Session-Id", "sessionid", "session_id", "PHPSESSID", "JSESSIONID",
	"password", "passwd", "pwd", "pass", "passphrase", "passcode", "X-Password", "userPassword", "user_pwd",
	"credential", "X-Amz-Credential", "credentials", "X-Creds", "bearer", "Bearer-Token", "jwt", "X-JWT",
	"X-Goog-IAP-JWT-Assertion", "client_assertion", "otp", "X-GitHub-OTP", "totp", "pin", "code_verifier",
	"X-CSRF-Token", "X-XSRF", "xsrfcookie", "SAMLResponse",
	"sign", "X-Sign", "API-Sign", "api_sign", "mac", "X-Mac", "body_mac", "pw", "user_pw", "psw", "wifi-psk", "pat", "X-Pat",
	"Merchantkey", "Partnerkey", "Consumerkey", "Servicekey", "Userkey", "Clientkey", "Licensekey", "Integrationkey",
	"Passkey", "X-Licensekey", "Xauth", "Merchantauth", "Accesscode", "accessCode",
	"X-PAYMENT", "PAYMENT-SIGNATURE", "X-Cashu", "Skyfire-Pay-Id", "SIGN-IN-WITH-X", "Grpc-Metadata-Macaroon",
	"db_cred", "ticket", "X-Ticket", "entry_ticket", "ticket[]",
}

var ordinary = []string{
	"Idempotency-Key", "idempotency-key", "IDEMPOTENCY_KEY", "X-Idempotency-Key", "idempotencyKey", "Idempotencykey",
	"Cko-Idempotency-Key", "Klarna-Idempotency-Key", "I-Twilio-Idempotency-Token", "X-Idempotence-Uuid",
	"X-Payout-Idempotency", "X-Refund-Idempotency", "Idempotent-Replayed", "PayPal-Request-Id",
	"Repeatability-Request-ID", "Repeatability-First-Sent", "Repeatability-Client-ID", "X-Request-Key",
	"Message-Deduplication-Key", "X-Dedup-Key",
	"Stripe-Account", "Stripe-Context", "Stripe-Version", "Square-Version", "X-Razorpay-Account", "Original-Request",
	"PayPal-Partner-Attribution-Id", "PayPal-Client-Metadata-Id",
	"Content-Type", "Content-Length", "Content-Encoding", "Content-Digest", "Content-MD5", "Accept", "Accept-Language",
	"User-Agent", "Host", "Date", "Prefer", "If-Match", "ETag", "Traceparent", "Tracestate", "Baggage", "Sec-Fetch-Mode",
	"X-Request-Id", "X-Correlation-Id", "X-Forwarded-For", "X-Amz-Date", "X-Amz-Content-Sha256", "X-Amz-Target",
	"PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE", "payment", "payment_id", "payment-status",
	"X-RateLimit-Reset", "Retry-After", "X-Author", "X-Design", "X-Assigned-To",
	"Partition-Key", "partitionKey", "routing_key", "sort_key", "cache-key", "Surrogate-Key", "public_key",
	"publishableKey", "Publickey", "Partitionkey", "Routingkey", "Cachekey", "X-Turkey", "Jockey", "Preauth", "Monkey-Id",
	"", "-", "a", "amount", "currency", "limit", "page", "cursor", "client_id", "grant_type", "scope", "state",
	"code", "author", "keyword", "monkey", "keyboard", "shipping", "spin", "compass", "passenger", "signed_at",
	"sign_in_count", "signed", "mac_version", "ticket_id", "ticketing", "tickets_sold", "pattern", "pw_reset", "pat_id",
	"expand[]", "metadata[order]", "AccountSid", "MessageSid", "request_id", "größe", "\xff",
}

// Names of credentials are withheld in any case.
func TestCredentialNamesInAnyCase(t *testing.T) {
	for _, name := range credentials {
		for _, spelled := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			assert.True(t, secret.Header(spelled), "header %q", spelled)
			assert.True(t, secret.Query(spelled), "parameter %q", spelled)
		}
	}
}

func TestNamesOfOrdinaryValuesAreKept(t *testing.T) {
	for _, name := range ordinary {
		for _, spelled := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			assert.False(t, secret.Header(spelled), "header %q", spelled)
			assert.False(t, secret.Query(spelled), "parameter %q", spelled)
		}
	}
}

func TestCapitalsSeparateWords(t *testing.T) {
	assert.True(t, secret.Query("dbPass"))
	assert.False(t, secret.Query("dbpass"))
	assert.True(t, secret.Query("PHPSessID"))
	assert.True(t, secret.Query("SSOPass"), "a word may begin where an acronym ends")
	assert.False(t, secret.Query("ssopass"))
	assert.True(t, secret.Query("requestSign"))
	assert.False(t, secret.Query("requestsign"))
}

// A renewed credential leaves the request the same. A ticket with another number does not.
func TestRenewedCredentialDoesNotChangeTheRequest(t *testing.T) {
	matters := []string{"ticket", "X-Ticket", "entry_ticket", "ticket[]", "code_verifier"}
	for _, name := range credentials {
		want := false
		for _, m := range matters {
			want = want || strings.EqualFold(m, name)
		}
		assert.Equal(t, want, secret.Counts(name), "%q", name)
	}
	assert.True(t, secret.Counts("amount"))
	assert.False(t, secret.Counts("auth_ticket"), "in doubt it is a credential, which may be renewed")
	assert.False(t, secret.Counts("ticket_key"))
}

// A stranger may choose the names. So at most 1024 names are remembered, and none of more than 64 bytes.
func TestMemoryOfNamesIsBounded(t *testing.T) {
	secret.Forget()
	secret.Header(strings.Repeat("x", 65))
	assert.Zero(t, secret.Remembered())
	secret.Header(strings.Repeat("x", 64))
	assert.Equal(t, 1, secret.Remembered())
	for n := range 2000 {
		secret.Query(strconv.Itoa(n))
	}
	assert.Equal(t, 1024, secret.Remembered())
	assert.True(t, secret.Header("Authorization"), "it is judged, though not remembered")
}
