package onceward

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/onceward/onceward/internal/naming"
)

const (
	maxKeyLength    = 255 // bytes: Stripe's limit, the widest of the payment providers
	minSecretLength = 16  // bytes
)

// ErrInvalidKey is in the chain of every [Key.Validate] error.
var ErrInvalidKey = errors.New("onceward: invalid key")

// KeyError says why a key was rejected. A KeyError never holds the key.
type KeyError struct {
	// Reason completes the sentence "the key …".
	Reason string
}

// Error returns the reason, without the key.
func (e *KeyError) Error() string { return "onceward: invalid key: it " + e.Reason }

// Is reports whether target is [ErrInvalidKey].
func (e *KeyError) Is(target error) bool { return target == ErrInvalidKey }

// Key is an idempotency key as sent, the same for every attempt in an operation's generation. The provider keeps the key:
// never put personal data in a key. This package's keys are lower-case UUIDs, which every known provider accepts.
type Key string

// NewKey returns a random key, a version 4 UUID (RFC 9562). NewKey is safe for concurrent use, and panics if the operating
// system has no randomness.
func NewKey() Key { return Key(naming.NewKey()) }

// Child returns the key for one step under k: a version 8 UUID from SHA-256 over k and step, the same on every host and in
// every release. Every holder of k can compute the child, so k must be your own key. For a key that a caller chose, use
// [DeriveKey].
func (k Key) Child(step string) Key { return Key(naming.Child(string(k), "", step)) }

// DeriveKey returns the key for secret and the list of parts: a version 8 UUID from HMAC-SHA256. The key is the same on
// every host and in every release, and can't be guessed without the secret. Different lists give different keys, such as
// ("a", "bc") and ("ab", "c"). The error is for a secret shorter than 16 bytes, and for a list without parts.
func DeriveKey(secret []byte, parts ...string) (Key, error) {
	if len(secret) < minSecretLength {
		return "", fmt.Errorf("onceward: no key can be derived: a secret of %d bytes, at least %d are needed", len(secret), minSecretLength)
	}
	if len(parts) == 0 {
		return "", errors.New("onceward: no key can be derived: no parts")
	}
	return Key(naming.Derive(secret, parts...)), nil
}

// Validate returns a [*KeyError] unless k can be sent as a key: 1 to 255 visible ASCII characters (0x21 to 0x7E)
// without an @, which suggests an address. A provider may allow less.
func (k Key) Validate() error {
	if k == "" {
		return &KeyError{Reason: "is empty"}
	}
	if len(k) > maxKeyLength {
		return &KeyError{Reason: fmt.Sprintf("is longer than %d bytes", maxKeyLength)}
	}
	for i := range len(k) {
		if k[i] < 0x21 || k[i] > 0x7e {
			return &KeyError{Reason: "contains a character that is not visible ASCII"}
		}
	}
	if strings.ContainsRune(string(k), '@') {
		return &KeyError{Reason: "contains an @; keys must hold no personal data"}
	}
	return nil
}

// LogValue returns a shortened key, too little to ask the provider for the answer.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.short()) }

// short returns the key as errors and logs print it.
func (k Key) short() string { return naming.Short(string(k)) }
