package onceward

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"strings"

	"github.com/google/uuid"
)

const (
	// MaxKeyLength is the greatest length of a key, in bytes: Stripe's limit, the widest among the payment
	// providers. A provider may state a lower one.
	MaxKeyLength = 255

	// MinSecretLength is the least length of a secret that [DeriveKey] takes, in bytes: 128 bits.
	MinSecretLength = 16
)

// The labels keep the kinds of derived keys apart from each other and from any other use of the same secret.
// Changing one changes every key made under it, so a change is a new version.
const (
	childLabel   = "onceward child key v1"
	scopedLabel  = "onceward scoped child key v1"
	derivedLabel = "onceward derived key v1"

	referenceLabel = "onceward reference v1"
)

// ErrInvalidKey is what errors.Is finds in every error of [Key.Validate].
var ErrInvalidKey = errors.New("onceward: invalid key")

// KeyError says why a key was refused. It never holds the key.
type KeyError struct {
	// Reason completes the sentence "the key …".
	Reason string
}

// Error returns the reason, without the key.
func (e *KeyError) Error() string { return "onceward: invalid key: it " + e.Reason }

// Is reports whether target is [ErrInvalidKey].
func (e *KeyError) Is(target error) bool { return target == ErrInvalidKey }

// DeriveError says why [DeriveKey] made no key. It holds neither the secret nor the parts.
type DeriveError struct {
	// Reason is a phrase such as "a secret of 3 bytes, at least 16 are needed".
	Reason string
}

// Error returns the reason.
func (e *DeriveError) Error() string { return "onceward: no key can be derived: " + e.Reason }

// Key is an idempotency key as it travels on the wire, the same for every attempt of an operation's generation. The
// keys made here are lower-case UUIDs, which fit the length and alphabet of every provider known to this module; those
// that a client makes have the version that the provider's table asks for. A key is sent to the provider and kept by it:
// never put personal data in one.
type Key string

// NewKey returns a random key: a lower-case UUID of version 4 (RFC 9562 section 5.4). It is safe for concurrent use
// and panics only where the operating system has no randomness to give.
func NewKey() Key { return Key(uuid.NewString()) }

// Child returns the key of one step under k: a UUID of version 8 (RFC 9562 section 5.8) from SHA-256 over k and step.
// It is the same on every host, in every run and in every later release. Whoever knows k can compute it, so k should
// be a key of our own making; under a key that a stranger chose, use [DeriveKey].
func (k Key) Child(step string) Key {
	h := sha256.New()
	writeString(h, childLabel)
	writeString(h, string(k))
	writeString(h, step)
	return uuidV8(h)
}

// childIn is Child within a scope, so that one parent in two scopes has two children.
func (k Key) childIn(scope, step string) Key {
	if scope == "" {
		return k.Child(step)
	}
	h := sha256.New()
	writeString(h, scopedLabel)
	writeString(h, string(k))
	writeString(h, scope)
	writeString(h, step)
	return uuidV8(h)
}

// DeriveKey returns the key that secret gives to the list of parts: a UUID of version 8 (RFC 9562 section 5.8) from
// HMAC-SHA256. No two different lists share an input, so ("a", "bc") and ("ab", "c") give different keys. The same
// secret and parts give the same key on every host, in every run and in every later release; without the secret it
// can't be guessed.
//
// The error is a [*DeriveError] if secret is shorter than [MinSecretLength], or if there are no parts, since one key
// would then serve every operation.
func DeriveKey(secret []byte, parts ...string) (Key, error) {
	if len(secret) < MinSecretLength {
		reason := fmt.Sprintf("a secret of %d bytes, at least %d are needed", len(secret), MinSecretLength)
		return "", &DeriveError{Reason: reason}
	}
	if len(parts) == 0 {
		return "", &DeriveError{Reason: "no parts"}
	}
	h := hmac.New(sha256.New, secret)
	writeString(h, derivedLabel)
	writeLength(h, len(parts))
	for _, part := range parts {
		writeString(h, part)
	}
	return uuidV8(h), nil
}

// reference returns the reference of a generation of the operation ref that has key k: a UUID of version 8 from HMAC-SHA256
// under secret. Without a secret, k itself has to be one that cannot be guessed. An endpoint may take no key, so ref counts as well.
func (k Key) reference(secret []byte, ref Ref, generation int) Key {
	h := hmac.New(sha256.New, secret)
	for _, part := range []string{referenceLabel, string(k), ref.Scope, ref.Parent, ref.ID} {
		writeString(h, part)
	}
	writeLength(h, generation)
	return uuidV8(h)
}

// Validate reports whether k can be sent as a key: 1 to [MaxKeyLength] characters of visible ASCII (0x21 to 0x7E, no
// space) without an @, which would mean that the key holds an address. The error is a [*KeyError], in which errors.Is
// finds [ErrInvalidKey]. A provider may ask for less length or a smaller alphabet.
func (k Key) Validate() error {
	if k == "" {
		return &KeyError{Reason: "is empty"}
	}
	if len(k) > MaxKeyLength {
		return &KeyError{Reason: fmt.Sprintf("is longer than %d bytes", MaxKeyLength)}
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

// LogValue lets log/slog print a shortened key: enough to follow an operation through a log, not enough to ask the
// provider for its answer.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.short()) }

// short returns the key as errors and logs print it: its first 8 bytes, and never more than half of it.
func (k Key) short() string { return string(k[:min(8, len(k)/2)]) + "…" }

// writeString writes s after its length, so that neighbouring strings can't trade bytes.
func writeString(h hash.Hash, s string) {
	writeLength(h, len(s))
	h.Write([]byte(s))
}

func writeLength(h hash.Hash, n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

// uuidV8 takes the first 128 bits of the digest and sets the version and variant fields of RFC 9562 sections 4.1, 4.2.
func uuidV8(h hash.Hash) Key {
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return Key(id.String())
}

// derivedMark ends a derived key that has the form of a random one, by which it is told from one.
var derivedMark = [2]byte{0x0d, 0xe8}

// asVersion returns a key that was made here in the form of a UUID of the version that a provider asks for; 0 asks for
// none. A key that has the version already stays as it is.
func (k Key) asVersion(version int) Key {
	id, err := uuid.Parse(string(k))
	if err != nil || version == 0 || int(id.Version()) == version {
		return k
	}
	id[6] = id[6]&0x0f | byte(version)<<4
	if version == randomVersion {
		copy(id[14:], derivedMark[:])
	}
	return Key(id.String())
}

// randomVersion is the version of NewKey's UUIDs.
const randomVersion = 4

// likeMade tells whether a key has the form of one that a client makes, of whatever version a provider has asked for.
func likeMade(key string) bool {
	_, err := uuid.Parse(key)
	return err == nil
}

// atRandom tells whether a key is one of NewKey's and no derived one. Of 65,536 random keys, one is taken for derived.
func atRandom(key string) bool {
	id, err := uuid.Parse(key)
	return err == nil && id.Version() == randomVersion && [2]byte(id[14:]) != derivedMark
}
