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

// MinSecret is the least number of bytes in a secret's key: 128 bits. Every scheme's own secrets are longer. A shorter
// secret is a placeholder or a password, and an observer of one request could find such a secret by trying.
const MinSecret = 16

var minSecret = MinSecret // a test's to lower

// SecretError says which secret is invalid, and why, without any part of the secret. errors.As finds a SecretError in the
// errors from the package's functions.
type SecretError struct {
	Scheme string // as in Error
	Number int    // position of the secret in the arguments, from 1; 0 if no secret was given
	Given  int    // number of given secrets
	Reason string
}

func (e *SecretError) Error() string {
	if e.Number == 0 {
		return fmt.Sprintf("webhook: %s: %s", e.Scheme, e.Reason)
	}
	return fmt.Sprintf("webhook: %s: secret %d of %d: %s", e.Scheme, e.Number, e.Given, e.Reason)
}

// secrets are an endpoint's HMAC keys. Any key may have signed.
type secrets [][]byte

// newSecrets turns each text into a key. The errors are SecretErrors.
func newSecrets(scheme string, texts []string, key func(text string) ([]byte, error)) (secrets, error) {
	return newKeys(scheme, texts, func(text string) ([]byte, error) {
		k, err := key(text)
		if err == nil && len(k) < minSecret {
			err = fmt.Errorf("its key has %d bytes, fewer than %d", len(k), minSecret)
		}
		return k, err
	})
}

// newKeys is newSecrets for public keys, with any length.
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

// asGiven is the key for schemes that use the text's own bytes.
func asGiven(text string) ([]byte, error) { return []byte(text), nil }

// signed reports whether any signature is the joined parts' HMAC under any secret. The time is the same however many bytes
// agree.
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
