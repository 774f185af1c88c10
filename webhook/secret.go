package webhook

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// secrets are the HMAC keys of an endpoint, any of which may have signed.
type secrets [][]byte

// newSecrets turns each text into a key. Its errors say which text is wrong, not
// what it is.
func newSecrets(scheme string, texts []string, key func(text string) ([]byte, error)) (secrets, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("webhook: %s: no secret was given", scheme)
	}
	var s secrets
	for i, text := range texts {
		if err := checkSecret(text); err != nil {
			return nil, fmt.Errorf("webhook: %s: secret %d of %d: %w", scheme, i+1, len(texts), err)
		}
		k, err := key(text)
		if err != nil {
			return nil, fmt.Errorf("webhook: %s: secret %d of %d: %w", scheme, i+1, len(texts), err)
		}
		s = append(s, k)
	}
	return s, nil
}

func checkSecret(text string) error {
	switch {
	case text == "":
		return errors.New("it is empty")
	case text != strings.TrimSpace(text):
		return errors.New("it has white space around it")
	}
	return nil
}

// asGiven is the key of the schemes that use the text's own bytes.
func asGiven(text string) ([]byte, error) { return []byte(text), nil }

// signed tells whether one of the signatures is the HMAC of the joined parts under
// one of the secrets. How long it takes does not depend on which bytes agree.
func (s secrets) signed(newHash func() hash.Hash, signatures [][]byte, parts ...[]byte) bool {
	found := false
	for _, key := range s {
		mac := hmac.New(newHash, key)
		for _, part := range parts {
			mac.Write(part)
		}
		sum := mac.Sum(nil)
		for _, signature := range signatures {
			found = hmac.Equal(sum, signature) || found
		}
	}
	return found
}
