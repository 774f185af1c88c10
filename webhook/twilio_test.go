package webhook_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

func TestTwilioSignsWithOrWithoutThePort(t *testing.T) {
	for _, tc := range []struct {
		origin, called string
		same           bool
	}{
		{"https://example.com", "https://example.com/hooks", true},
		{"https://example.com", "https://example.com:443/hooks", true},
		{"https://example.com:443", "https://example.com/hooks", true},
		{"https://example.com:443", "https://example.com:443/hooks", true},
		{"https://example.com:8443", "https://example.com:8443/hooks", true},
		{"https://example.com:8443", "https://example.com/hooks", true},
		{"http://example.com", "http://example.com:80/hooks", true},
		{"http://example.com:80", "http://example.com/hooks", true},
		{"https://example.com/", "https://example.com/hooks", true},
		{"https://example.com/behind/a/proxy", "https://example.com/behind/a/proxy/hooks", true},
		{"https://example.com/behind", "https://example.com:443/behind/hooks", true},
		{"https://user:word@example.com", "https://user:word@example.com/hooks", true},
		{"https://user:word@example.com", "https://user:word@example.com:443/hooks", true},
		{"https://[2001:db8::1]", "https://[2001:db8::1]:443/hooks", true},
		{"https://[2001:db8::1]:443", "https://[2001:db8::1]/hooks", true},
		{"https://EXAMPLE.com", "https://EXAMPLE.com/hooks", true},

		{"wss://example.com", "wss://example.com/hooks", true},
		{"wss://example.com", "wss://example.com:443/hooks", true},
		{"ws://example.com", "ws://example.com:80/hooks", true},

		{"wss://example.com", "https://example.com/hooks", false},
		{"https://example.com", "http://example.com/hooks", false},
		{"https://example.com", "https://example.com:80/hooks", false},
		{"https://example.com", "https://example.com:8443/hooks", false},
		{"https://example.com:8443", "https://example.com:443/hooks", false},
		{"https://example.com", "https://example.org/hooks", false},
		{"https://example.com/behind", "https://example.com/hooks", false},
	} {
		t.Run(tc.origin+" "+tc.called, func(t *testing.T) {
			v, err := webhook.Twilio(tc.origin, "an auth token of Twilio")
			require.NoError(t, err)
			_, err = v.Verify(post("", "X-Twilio-Signature", twilioSignature("an auth token of Twilio", tc.called, nil)), nil)
			if tc.same {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, webhook.ErrSignature)
			}
		})
	}
}

func TestTwilioSignsTheTargetAsItArrived(t *testing.T) {
	v, err := webhook.Twilio("https://example.com", "an auth token of Twilio")
	require.NoError(t, err)
	for _, target := range []string{"/", "/a%2Fb", "/a?", "/a?b=%20+c&&d", "/a;b?c=%C3%A9", "//a/../b"} {
		r := post("", "X-Twilio-Signature", twilioSignature("an auth token of Twilio", "https://example.com"+target, nil))
		r.RequestURI = target
		r.URL = &url.URL{Path: "/stripped"} // as http.StripPrefix leaves it
		_, err := v.Verify(r, nil)
		assert.NoError(t, err, target)
	}
	called, err := url.Parse("https://example.com/hooks?a=b")
	require.NoError(t, err)
	for _, requestURI := range []string{"", "https://example.com/hooks?a=b"} { // made by hand, or through a proxy
		r := &http.Request{URL: called, RequestURI: requestURI, Header: http.Header{}}
		r.Header.Set("X-Twilio-Signature", twilioSignature("an auth token of Twilio", called.String(), nil))
		_, err = v.Verify(r, nil)
		assert.NoError(t, err)
	}
}

func TestTwilioBodies(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	sum := func(body string) string {
		s := sha256.Sum256([]byte(body))
		return hex.EncodeToString(s[:])
	}
	for _, tc := range []struct {
		name, target, contentType, signedForm, body string
		want                                        error
	}{
		{"a form", "/hooks", form, "b=2&a=1", "a=1&b=2", nil},
		{"a form with a charset", "/hooks", form + "; charset=UTF-8", "a=1", "a=1", nil},
		{"an empty value", "/hooks", form, "a=&b=", "a=&b=", nil},
		{"values in another order", "/hooks", form, "a=1&a=2", "a=2&a=1", nil},
		{"a value less", "/hooks", form, "a=1&a=2", "a=1", webhook.ErrSignature},
		{"a value more", "/hooks", form, "a=1", "a=1&a=2", webhook.ErrSignature},
		{"another name's case", "/hooks", form, "a=1", "A=1", webhook.ErrSignature},
		{"a form cut in another way", "/hooks", form, "a=1&b=2", "a=1;b=2", webhook.ErrMalformed},
		{"a broken escape", "/hooks", form, "a=1", "a=%zz", webhook.ErrMalformed},
		{"JSON that nothing signs", "/hooks", "application/json", "", `{"a":1}`, webhook.ErrMalformed},
		{"no type that anything signs", "/hooks", "", "", "a=1", webhook.ErrMalformed},

		{"JSON", "/hooks?bodySHA256=" + sum(`{"a":1}`), "application/json", "", `{"a":1}`, nil},
		{"a sum in upper case", "/hooks?bodySHA256=" + strings.ToUpper(sum(`{"a":1}`)), "application/json", "", `{"a":1}`, nil},
		{"a form under a sum", "/hooks?bodySHA256=" + sum("a=1"), form, "", "a=1", nil},
		{"the sum of nothing", "/hooks?bodySHA256=" + sum(""), "application/json", "", "", nil},
		{"another body", "/hooks?bodySHA256=" + sum(`{"a":1}`), "application/json", "", `{"a":2}`, webhook.ErrSignature},
		{"no body", "/hooks?bodySHA256=" + sum(`{"a":1}`), "application/json", "", "", webhook.ErrSignature},
		{"a short sum", "/hooks?bodySHA256=00", "application/json", "", `{"a":1}`, webhook.ErrSignature},
		{"an empty sum", "/hooks?bodySHA256=", "application/json", "", `{"a":1}`, webhook.ErrSignature},
		{"a sum that is none", "/hooks?bodySHA256=zz", "application/json", "", `{"a":1}`, webhook.ErrMalformed},
		{"two sums", "/hooks?bodySHA256=" + sum("{}") + "&bodySHA256=" + sum("{}"), "application/json", "", "{}", webhook.ErrMalformed},
		{"a sum that can't be unescaped", "/hooks?bodySHA256=%zz", "application/json", "", `{"a":1}`, webhook.ErrMalformed},
		{"a name that is escaped", "/hooks?bodySHA%3256=" + sum("{}"), "application/json", "", `{"a":1}`, webhook.ErrSignature},

		{"a semicolon in the query", "/hooks?to=1;2&b=c;d", form, "a=1", "a=1", nil},
		{"a lone % in the query", "/hooks?discount=50%&b=%", form, "a=1", "a=1", nil},
		{"a lone % in a name", "/hooks?50%=x", form, "a=1", "a=1", nil},
		{"a lone % beside a sum", "/hooks?discount=50%&bodySHA256=" + sum("{}"), "application/json", "", "{}", nil},
		{"a lone % beside a sum, and another body", "/hooks?discount=50%&bodySHA256=" + sum("{}"), "application/json", "", "[]", webhook.ErrSignature},
		{"a lone % and another form", "/hooks?discount=50%", form, "a=1", "a=2", webhook.ErrSignature},
		{"a semicolon and JSON that nothing signs", "/hooks?to=1;2", "application/json", "", "{}", webhook.ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := webhook.Twilio("https://example.com", "an auth token of Twilio")
			require.NoError(t, err)
			signed, err := url.ParseQuery(tc.signedForm)
			require.NoError(t, err)
			r := post(tc.body, "X-Twilio-Signature", twilioSignature("an auth token of Twilio", "https://example.com"+tc.target, signed))
			r.Header.Set("Content-Type", tc.contentType)
			r.RequestURI = tc.target
			_, err = v.Verify(r, []byte(tc.body))
			if tc.want == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, tc.want)
			}
		})
	}
}

func TestTwiliosOriginHasASchemeAndAHost(t *testing.T) {
	for _, origin := range []string{"", "example.com", "//example.com", "ftp://example.com", "https://", "https:///hooks", "https://example.com?a=b", "https://example.com#a", "https://user:hunter2@exa mple.com"} {
		_, err := webhook.Twilio(origin, "an auth token of Twilio")
		require.Error(t, err, origin)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}
