package tables

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/onceward/onceward/providers"
)

// Mode returns a request credential's mode, by the prefix. It returns "" if the credential has none of the
// prefixes in p.CredentialModes, or p is nil. It reads Authorization first, in the forms Bearer, Basic (the user, then
// the password) and a bare key, and then X-Api-Key and Api-Key. It neither returns nor keeps the credential itself.
func Mode(p *providers.Provider, h http.Header) string {
	if p == nil || len(p.CredentialModes) == 0 {
		return ""
	}
	var authorization, xAPIKey, apiKey string
	for spelt, values := range h {
		switch {
		case strings.EqualFold(spelt, "Authorization"):
			for _, line := range values {
				user, password := credentialsOf(line)
				authorization = cmp.Or(authorization, modeOf(p, user), modeOf(p, password))
			}
		case strings.EqualFold(spelt, "X-Api-Key"):
			xAPIKey = cmp.Or(xAPIKey, modeOfFirst(p, values))
		case strings.EqualFold(spelt, "Api-Key"):
			apiKey = cmp.Or(apiKey, modeOfFirst(p, values))
		}
	}
	return cmp.Or(authorization, xAPIKey, apiKey)
}

// modeOfFirst returns the mode of the first bare key that has one.
func modeOfFirst(p *providers.Provider, keys []string) (mode string) {
	for _, key := range keys {
		mode = cmp.Or(mode, modeOf(p, strings.TrimSpace(key)))
	}
	return mode
}

// credentialsOf returns what a line of Authorization may hold as a key. Only Basic has a password.
func credentialsOf(line string) (user, password string) {
	line = strings.TrimSpace(line)
	scheme, rest, found := strings.Cut(line, " ")
	if !found {
		return line, ""
	}
	rest = strings.TrimLeft(rest, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return rest, ""
	}
	text, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		if text, err = base64.RawStdEncoding.DecodeString(rest); err != nil {
			return "", ""
		}
	}
	user, password, _ = strings.Cut(string(text), ":")
	return user, password
}

// modeOf takes the longest prefix that the credential has.
func modeOf(p *providers.Provider, credential string) (mode string) {
	longest := 0
	for _, m := range p.CredentialModes {
		if len(m.Prefix) > longest && strings.HasPrefix(credential, m.Prefix) {
			mode, longest = m.Mode, len(m.Prefix)
		}
	}
	return mode
}
