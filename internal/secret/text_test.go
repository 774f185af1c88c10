package secret_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/secret"
)

func TestTextHoldsNoCredential(t *testing.T) {
	parse := func(raw string) string {
		_, err := url.Parse(raw)
		return fmt.Sprint(err)
	}
	header := http.Header{"Authorization": {"Bearer s3cret"}, "X-Api-Key": {"s3cret"}, "Accept": {"*/*"}}
	for _, row := range []struct{ name, text, keeps string }{
		{"a query", "Post \"https://api.example/v1/x?key=s3cret\": EOF", `Post "https://api.example/v1/x?…": EOF`},
		{"any query", "Post \"https://api.example/v1/x?q=s3cret\": EOF", `Post "https://api.example/v1/x?…": EOF`},
		{"a URL with a line break", parse("https://api.example/x?key=ab\ns3cret"), `parse "https://api.example/x?…": net/url: invalid control character in URL`},
		{"a URL with a quote", parse("https://api.example/x?key=\"s3cret\n\""), `parse "https://api.example/x?…": net/url: invalid control character in URL`},
		{"a URL with a space", fmt.Sprint(&url.Error{Op: "Post", URL: "https://api.example/x?key=a s3cret", Err: errors.New("EOF")}), `Post "https://api.example/x?…": EOF`},
		{"a bare URL with a line break", "asking https://api.example/x?key=ab\ns3cret failed", "asking https://api.example/x?… failed"},
		{"a flattened error", "charge: " + fmt.Sprintf("%v", &url.Error{Op: "Post", URL: "https://api.example/x?s3cret", Err: errors.New("EOF")}), `charge: Post "https://api.example/x?…": EOF`},
		{"one in one", fmt.Sprintf("%q", `Post "https://api.example/x?a=s3cret": EOF`), `https://api.example/x?…`},
		{"in JSON with escaped slashes", `{"url":"https:\/\/u:s3cret@api.example\/x?a=s3cret"}`, "api.example"},
		{"a user name", `Post "https://s3cret@api.example/v1": EOF`, `Post "https://…@api.example/v1": EOF`},
		{"a password", `Post "https://user:s3cret@api.example/v1": EOF`, `Post "https://…@api.example/v1": EOF`},
		{"a password with a slash", parse("https://user:s3/cret@api.example/v1"), "@api.example/v1"},
		{"a password that is no port", parse("https://user:s3cret"), "invalid port …"},
		{"a password with a question mark", "https://user:pa?s3cret@api.example/v1", "https://…"},
		{"a query without a host", fmt.Sprint(&url.Error{Op: "Post", URL: "https://?key=a s3cret", Err: errors.New("EOF")}), `Post "https://?…": EOF`},
		{"a query that may be a password", "see https://?s3cret@x", "see https://…"},
		{"a user that is empty", "see https://@api.example/x", "see https://…@api.example/x"},
		{"a port that is none", "see https://api.example:s3cret/x", "see https://api.example:…/x"},
		{"an address in a query", "see file:///?jo@s3cret", "see file:///?…"},
		{"a long word", "the token: abcdefghijklmnopqrstuvwx", "the token: …"},
		{"a short word with a digit", "the token: s3cret", "the token: …"},
		{"a fragment", "see https://api.example/v1#access_token=s3cret.", "see https://api.example/v1#…."},
		{"a database", "open postgres://app:s3cret@db/orders?sslmode=off: refused", "open postgres://…@db/orders?…: refused"},
		{"a database without a scheme", "open app:s3cret@tcp(db)/orders: refused", "open …@tcp(db)/orders: refused"},
		{"a URL without its host", "POST /v1/charges?key=s3cret: 401", "POST /v1/charges?…: 401"},
		{"a quoted one without its host", fmt.Sprint(&url.Error{Op: "Post", URL: "/v1/x?a= s3cret", Err: errors.New("EOF")}), `Post "/v1/x?…": EOF`},
		{"a form", "sent client_id=app&client_secret=s3cret&amount=5", "sent client_id=app&client_secret=…&amount=5"},
		{"JSON", `refused: {"amount":5,"client_secret":"s3 cret","api_key": "s3cret"}`, `refused: {"amount":5,"client_secret":"…","api_key": "…"}`},
		{"quoted JSON", fmt.Sprintf("%q", `{"password":"s3cret"}`), "password"},
		{"a header", "sent X-Api-Key: s3cret", "sent X-Api-Key: …"},
		{"an Authorization header", "sent Authorization: Signature keyId=\"a\",s3cret\nAccept: */*", "sent Authorization: …"},
		{"a header of Go", fmt.Sprint(header), "Accept:[*/*]"},
		{"a word that is none", "the token: abcs3cret was refused", "the token: … was refused"},
		{"a bearer token", "used Bearer abc.s3cret-9 and failed", "used Bearer … and failed"},
		{"basic credentials", "used Basic dXNlcjpzM2NyZXQ=", "used Basic …"},
		{"a Stripe key", "Invalid API Key provided: sk_live_s3cret4711", "Invalid API Key provided: …"},
		{"a signing secret", "bad secret whsec_s3cret4711+/=", "bad secret …"},
		{"a client secret", "intent pi_1_secret_s3cret4711 has failed", "intent pi_1_secret_… has failed"},
		{"a JWT", "expired: eyJhbGciOiJ.eyJzM2NyZXQ.s3cret", "expired: …"},
		{"a private key", "bad key -----BEGIN RSA PRIVATE KEY-----\nMIIs3cret\n-----END", "bad key …"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := secret.Text(row.text)
			for _, part := range []string{"s3cret", "s3 cret", "s3/cret", "dXNlcjpzM2NyZXQ", "eyJzM2NyZXQ"} {
				assert.NotContains(t, got, part)
			}
			assert.Contains(t, got, row.keeps)
			assert.Equal(t, got, secret.Text(got), "cut once")
		})
	}
}

func TestTextKeepsTheErrorsReason(t *testing.T) {
	for _, text := range []string{
		"", "declined", "step authorize: declined: do_not_honor", "your card was declined; is it yours? ask your bank",
		"onceward: invalid key: it is longer than 255 bytes", "token: expired", "status 402, code card_declined",
		"Idempotency-Key: 8a6f0f5e-58a6-4a59-9f1f-2a4b6b8b1f3e", "charge ch_3MmlLrLkdIwHu7ix0snN0B15 of cus_9s6XKzkNRiz8i3",
		`Post "https://api.example:8443/v1/charges": dial tcp 127.0.0.1:443: connect: connection refused`,
		"the token: abc12", "the token: abcdefghijklmnopqrstuvw", "token=&amount=5", "token:", "token: ", `{"token":""}`,
		"2026-11-21T19:55:13Z: too late", "größe = 5", "basic checks failed", "ratio 1:2, amount=5&currency=eur",
	} {
		assert.Equal(t, text, secret.Text(text))
	}
}

func TestTextIsBounded(t *testing.T) {
	longest := strings.Repeat("x", 16<<10)
	assert.Equal(t, longest, secret.Text(longest))
	assert.Equal(t, longest+"…", secret.Text(longest+"x"))
	for _, piece := range []string{"x", "https://", "key=", `"`, "?", "a:b@", "eyJ.", "Bearer ", "\\", "[", "-----BEGIN PRIVATE KEY-----"} {
		assert.LessOrEqual(t, len(secret.Text(strings.Repeat(piece, 1<<20))), 64<<10, piece)
	}
}

func FuzzTextLeavesNoQuery(f *testing.F) {
	for _, seed := range []string{"a=1", "key=1&b=2", "a b", "a\nb", `a"b`, "#", "%", "@", "'", "é", "\\\"", "a://b?c"} {
		f.Add("https://api.example/v1/charges", seed)
	}
	f.Fuzz(func(t *testing.T, base, query string) {
		u, err := url.Parse(base)
		if err != nil || u.Host == "" {
			return
		}
		whole := fmt.Sprint(&url.Error{Op: "Post", URL: base + "?" + query + "s3cret", Err: errors.New("EOF")})
		got := secret.Text(whole)
		assert.NotContains(t, got, "s3cret", whole)
		assert.NotContains(t, secret.Text(got), "s3cret")
	})
}
