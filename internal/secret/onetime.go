package secret

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// secondFactors are words that, anywhere in a name, betray a value that approves one request: x-2fa-approval.
var secondFactors = []string{"2fa", "mfa", "twofactor", "two-factor", "two_factor", "secondfactor", "second-factor", "second_factor"}

// OneTime reports whether a value of this name approves one request, and is another for the next. It is withheld, and
// does not identify the owner of the credential. name may have any case.
func OneTime(name string) bool { return oneTime(strings.ToLower(name)) }

func oneTime(lower string) bool {
	return slices.ContainsFunc(secondFactors, func(f string) bool { return strings.Contains(lower, f) }) ||
		slices.ContainsFunc(split(lower), func(word string) bool { return word == "otp" || word == "totp" })
}

// datedWords end the name of a signature's field: a time, or a number that is used once.
var datedWords = []string{"date", "timestamp", "nonce"}

// signingSchemes are, in lower case, parts of an Authorization scheme that is a signature over the request.
var signingSchemes = []string{"signature", "hmac", "aws4", "sharedkey", "hawk", "digest"}

// Dated returns the canonical names of the fields in h that are renewed with the signature in h: a date, or a number
// that is used once. A server rejects a request with only one of them renewed. It returns none if nothing in h is a
// signature.
func Dated(h http.Header) (names []string) {
	for name := range h {
		if judgedOf(name)&dated != 0 {
			names = append(names, http.CanonicalHeaderKey(name))
		}
	}
	if len(names) == 0 {
		return nil // as most have none, and the search for a signature takes longer
	}
	for name, values := range h {
		if judgedOf(name)&dated == 0 && signs(name, values) {
			return names
		}
	}
	return nil
}

// Signature reports whether a header of this name is a signature over the request. It is made anew for each request, and
// does not show whose the key is. A signed payment is no such signature: another one pays again.
func Signature(name string) bool { return judgedOf(name)&signing != 0 }

// Signs reports whether a header with that value is a signature over the request.
func Signs(name, value string) bool { return signs(name, []string{value}) }

// Signed reports whether a request with header h and an encoded query carries its caller's signature, or a digest of
// its body. A server rejects such a request if it is changed afterwards.
func Signed(h http.Header, query string) bool {
	for name, values := range h {
		switch lower := strings.ToLower(name); {
		case lower == "digest", strings.HasSuffix(lower, "-digest"), strings.HasSuffix(lower, "-md5"), strings.HasSuffix(lower, "-sha256"), signs(name, values):
			return true
		}
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && signs(plain, []string{value}) {
			return true
		}
	}
	return false
}

// signs reports whether a field, or a query parameter, is a signature.
func signs(name string, values []string) bool {
	if !strings.EqualFold(name, "Authorization") && !strings.EqualFold(name, "Proxy-Authorization") {
		return judgedOf(name)&signing != 0
	}
	return slices.ContainsFunc(values, func(value string) bool {
		scheme, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		return slices.ContainsFunc(signingSchemes, func(s string) bool { return ContainsFold(scheme, s) })
	})
}

// isDated reports whether a name made of these words names a date, or a number that is used once.
func isDated(words []string) bool {
	return len(words) > 0 && slices.Contains(datedWords, words[len(words)-1])
}

// isSigning reports whether a name with these words is a signature's.
func isSigning(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.Contains(word, "signature") || strings.Contains(word, "hmac") || word == "sig"
	}) || len(words) > 0 && (words[len(words)-1] == "sign" || words[len(words)-1] == "mac")
}

// ContainsFold reports whether s contains part, which is ASCII, in any case.
func ContainsFold(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(part)], part) {
			return true
		}
	}
	return false
}
