package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// MinSecret is how many bytes the key of a secret has at least: 128 bits. Every
// scheme's own secrets are longer. A shorter one is a placeholder or a password,
// which whoever has seen one request could find by trying.
const MinSecret = 16

var minSecret = MinSecret // a test's to lower

// SecretError says which secret is invalid, and why. It holds nothing of the secret. errors.As finds it in the errors
// of the package's functions.
type SecretError struct {
	Scheme string // as in Error
	Number int    // of the secret among those that were given, from 1; 0 if none was
	Given  int    // how many were
	Reason string
}

func (e *SecretError) Error() string {
	if e.Number == 0 {
		return fmt.Sprintf("webhook: %s: %s", e.Scheme, e.Reason)
	}
	return fmt.Sprintf("webhook: %s: secret %d of %d: %s", e.Scheme, e.Number, e.Given, e.Reason)
}

// secrets are the HMAC keys of an endpoint. Any of them may have signed.
type secrets [][]byte

// newSecrets turns each text into a key. Its errors are SecretErrors.
func newSecrets(scheme string, texts []string, key func(text string) ([]byte, error)) (secrets, error) {
	return newKeys(scheme, texts, func(text string) ([]byte, error) {
		k, err := key(text)
		if err == nil && len(k) < minSecret {
			err = fmt.Errorf("its key has %d bytes, fewer than %d", len(k), minSecret)
		}
		return k, err
	})
}

// newKeys is newSecrets for keys that are no secrets, of any length.
func newKeys(scheme string, texts []string, key func(text string) ([]byte, error)) (secrets, error) {
	if len(texts) == 0 {
		return nil, &SecretError{Scheme: scheme, Reason: "no secret was given"}
	}
	var s secrets
	for i, text := range texts {
		var k []byte
		var err error
		switch {
		case text == "":
			err = errors.New("it is empty")
		case text != strings.TrimSpace(text):
			err = errors.New("it has white space around it")
		default:
			k, err = key(text)
		}
		if err != nil {
			return nil, &SecretError{Scheme: scheme, Number: i + 1, Given: len(texts), Reason: err.Error()}
		}
		s = append(s, k)
	}
	return s, nil
}

// digest identifies what a signature covers.
func digest(parts ...[]byte) string {
	sum := sha256.Sum256(bytes.Join(parts, nil))
	return "sha256 " + hex.EncodeToString(sum[:])
}

// asGiven is the key of the schemes that use the text's own bytes.
func asGiven(text string) ([]byte, error) { return []byte(text), nil }

// signed reports whether one of the signatures is the HMAC of the joined parts under one of the secrets. Its time
// does not depend on the bytes that agree.
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
