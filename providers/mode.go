package providers

import "fmt"

// CredentialMode is a public prefix of a provider's credentials, and the prefix's mode.
type CredentialMode struct {
	// Prefix is the start of such a credential: "sk_test_".
	Prefix string

	// Mode is the caller's name of the mode: "test".
	Mode string
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
