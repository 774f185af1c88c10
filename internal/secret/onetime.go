package secret

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// secondFactors betray, wherever they stand in a name, what approves one request: x-2fa-approval.
var secondFactors = []string{"2fa", "mfa", "twofactor", "two-factor", "two_factor", "secondfactor", "second-factor", "second_factor"}

// OneTime reports whether what is called so approves one request, and is another for the next: it is withheld, and says
// nothing of whose credential it is. name may have any case.
func OneTime(name string) bool { return oneTime(strings.ToLower(name)) }

func oneTime(lower string) bool {
	return slices.ContainsFunc(secondFactors, func(f string) bool { return strings.Contains(lower, f) }) ||
		slices.ContainsFunc(split(lower), func(word string) bool { return word == "otp" || word == "totp" })
}

// datedWords end the name of a field that a signature is made with: when, or a number that is used once.
var datedWords = []string{"date", "timestamp", "nonce"}

// signingSchemes are, in lower case, what the scheme of an Authorization header holds that is a signature over the
// request.
var signingSchemes = []string{"signature", "hmac", "aws4", "sharedkey", "hawk", "digest"}

// Dated returns the names of the fields of h, canonical, that are renewed with the signature in h: its date, or a number
// that is used once. Whoever renews one alone is refused. It returns none where nothing in h is a signature.
func Dated(h http.Header) (names []string) {
	signed := false
	for name, values := range h {
		lower := strings.ToLower(name)
		if words := split(lower); len(words) > 0 && slices.Contains(datedWords, words[len(words)-1]) {
			names = append(names, http.CanonicalHeaderKey(name))
			continue
		}
		signed = signed || signs(lower, values)
	}
	if !signed {
		return nil
	}
	return names
}

// Signed reports whether a request with header h and an encoded query was signed by whoever made it, or says what its
// body's digest is: one that is changed afterwards is refused.
func Signed(h http.Header, query string) bool {
	for name, values := range h {
		switch lower := strings.ToLower(name); {
		case lower == "digest", strings.HasSuffix(lower, "-digest"), strings.HasSuffix(lower, "-md5"), strings.HasSuffix(lower, "-sha256"), signs(lower, values):
			return true
		}
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && signs(strings.ToLower(plain), []string{value}) {
			return true
		}
	}
	return false
}

func signs(lower string, values []string) bool {
	if lower == "authorization" || lower == "proxy-authorization" {
		return slices.ContainsFunc(values, func(value string) bool {
			scheme, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(value)), " ")
			return slices.ContainsFunc(signingSchemes, func(s string) bool { return strings.Contains(scheme, s) })
		})
	}
	words := split(lower)
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.Contains(word, "signature") || strings.Contains(word, "hmac") || word == "sig"
	}) || len(words) > 0 && (words[len(words)-1] == "sign" || words[len(words)-1] == "mac")
}
