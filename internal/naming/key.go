package naming

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// The labels keep derived key kinds apart from each other and from any other use for the same secret. Changing one
// changes every key made under it, so a change is a new version.
const (
	childLabel   = "onceward child key v1"
	scopedLabel  = "onceward scoped child key v1"
	derivedLabel = "onceward derived key v1"

	referenceLabel = "onceward reference v1"
)

// NewKey returns a random key: a UUID of version 4, which IsRandom tells from a derived one.
func NewKey() string {
	var id uuid.UUID // filled in here, since uuid.New has one on the heap
	for {
		rand.Read(id[:]) // never fails
		if [2]byte(id[14:]) != derivedMark {
			return stamped(id, randomVersion)
		}
	}
}

// Child returns the key of one step under a key, within a scope, so that one parent in two scopes has two children. The
// empty scope is none.
func Child(key, scope, step string) string {
	h := sha256.New()
	if scope == "" {
		writeStrings(h, childLabel, key, step)
	} else {
		writeStrings(h, scopedLabel, key, scope, step)
	}
	return uuidV8(h)
}

// Derive returns the key that a secret gives to a list of parts.
func Derive(secret []byte, parts ...string) string {
	h := hmac.New(sha256.New, secret)
	writeStrings(h, derivedLabel)
	writeLength(h, len(parts))
	writeStrings(h, parts...)
	return uuidV8(h)
}

// LaterKey returns the key for a generation after the first, in the UUID version that the provider asks for. An
// operation without a key has none.
func LaterKey(secret []byte, ref journal.Ref, first string, generation, version int) string {
	switch {
	case first == "":
		return ""
	case secret != nil:
		return AsVersion(Derive(secret, "operation", ref.Scope, ref.Parent, ref.ID, strconv.Itoa(generation)), version)
	}
	return AsVersion(NewKey(), version)
}

// NewReference makes the reference for one generation of an operation with a given key. The reference comes back after
// the loss of the journal if the key may: the provider would refuse the key with another body. A key comes back under a
// secret, and under a parent of the caller's own. Any other reference is random. None of them tells the key.
func NewReference(secret []byte, ref journal.Ref, how journal.Naming, key string, generation int) string {
	comesBack := secret != nil || ref.Parent != "" && !seam.IsOfFlow(ref.Parent)
	if how != journal.Named || !comesBack {
		return NewKey()
	}
	return derivedReference(secret, ref, key, generation)
}

// derivedReference returns a reference that is made by HMAC-SHA256 under secret. Without a secret, the key itself has
// to be one that cannot be guessed. An endpoint may take no key, so ref counts as well.
func derivedReference(secret []byte, ref journal.Ref, key string, generation int) string {
	h := hmac.New(sha256.New, secret)
	writeStrings(h, referenceLabel, key, ref.Scope, ref.Parent, ref.ID)
	writeLength(h, generation)
	return uuidV8(h)
}

// SpelledLike spells a reference without hyphens if the given one has none: some fields take none.
func SpelledLike(like, made string) string {
	if strings.Contains(like, "-") {
		return made
	}
	return strings.ReplaceAll(made, "-", "")
}

// Short returns a key for errors and logs: the first 8 bytes, and never more than half the key.
func Short(key string) string { return key[:min(8, len(key)/2)] + "…" }

// writeStrings writes each string after its length, so neighbouring strings can't trade bytes.
func writeStrings(h hash.Hash, all ...string) {
	b := make([]byte, 0, 256)
	for _, s := range all {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	h.Write(b)
}

func writeLength(h hash.Hash, n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

// uuidV8 takes the digest's first 128 bits.
func uuidV8(h hash.Hash) string {
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	return stamped(id, 8)
}

// stamped sets the version and variant fields of RFC 9562 sections 4.1, 4.2.
func stamped(id uuid.UUID, version byte) string {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// derivedMark ends a derived key in the form of a random one, and distinguishes the two kinds.
var derivedMark = [2]byte{0x0d, 0xe8}

// randomVersion is the version of NewKey's UUIDs.
const randomVersion = 4

// AsVersion returns a key made here in the form of the UUID version that a provider requires; 0 requires none. A key
// with the version already stays unchanged.
func AsVersion(key string, version int) string {
	if version == 0 {
		return key
	}
	id, err := uuid.Parse(key)
	if err != nil || int(id.Version()) == version {
		return key
	}
	id[6] = id[6]&0x0f | byte(version)<<4
	if version == randomVersion {
		copy(id[14:], derivedMark[:])
	}
	return id.String()
}

// IsLikeMade reports whether a key has a client-made key's form, with whatever version a provider has asked for.
func IsLikeMade(key string) bool {
	_, err := uuid.Parse(key)
	return err == nil
}

// IsRandom reports whether a key is one of NewKey's and no derived one.
func IsRandom(key string) bool {
	id, err := uuid.Parse(key)
	return err == nil && id.Version() == randomVersion && [2]byte(id[14:]) != derivedMark
}
