package providers

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// CredentialMode is a public prefix of a provider's credentials and what they are
// for.
type CredentialMode struct {
	// Prefix is what such a credential begins with: "sk_test_".
	Prefix string

	// Mode is the caller's word for it: "test".
	Mode string
}

// Mode returns what a request's credential is for, by its prefix; "" if it has none
// of those in p.CredentialModes, or p is nil. It looks at Authorization, of which it
// reads Bearer, Basic (the user, then the password) and a bare key, and then at
// X-Api-Key and Api-Key. The credential itself is neither returned nor kept.
func (p *Provider) Mode(h http.Header) string {
	if p == nil || len(p.CredentialModes) == 0 {
		return ""
	}
	for _, line := range lines(h, "Authorization") {
		for _, credential := range credentialsOf(line) {
			if mode := p.modeOf(credential); mode != "" {
				return mode
			}
		}
	}
	for _, name := range []string{"X-Api-Key", "Api-Key"} {
		for _, line := range lines(h, name) {
			if mode := p.modeOf(strings.TrimSpace(line)); mode != "" {
				return mode
			}
		}
	}
	return ""
}

// credentialsOf returns what a line of Authorization may hold as a key.
func credentialsOf(line string) []string {
	line = strings.TrimSpace(line)
	scheme, rest, found := strings.Cut(line, " ")
	if !found {
		return []string{line}
	}
	rest = strings.TrimLeft(rest, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return []string{rest}
	}
	text, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		if text, err = base64.RawStdEncoding.DecodeString(rest); err != nil {
			return nil
		}
	}
	user, password, _ := strings.Cut(string(text), ":")
	return []string{user, password}
}

// modeOf takes the longest prefix that the credential has.
func (p *Provider) modeOf(credential string) (mode string) {
	longest := 0
	for _, m := range p.CredentialModes {
		if len(m.Prefix) > longest && strings.HasPrefix(credential, m.Prefix) {
			mode, longest = m.Mode, len(m.Prefix)
		}
	}
	return mode
}

func (v *validation) modes() {
	seen := map[string]bool{}
	for i, m := range v.provider.CredentialModes {
		at := fmt.Sprintf("CredentialModes[%d].", i)
		v.check(m.Prefix == "", at+"Prefix", "it is empty")
		v.check(m.Mode == "", at+"Mode", "it is empty")
		v.check(seen[m.Prefix], at+"Prefix", "%q is there twice", m.Prefix)
		seen[m.Prefix] = true
	}
}
