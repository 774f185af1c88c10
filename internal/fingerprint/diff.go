package fingerprint

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// A fingerprint's versions. Anyone who has the request can compute the digests of a plain one. Those of the
// others are made under the fingerprint's own salt. Those of a keyed one are made under a secret kept elsewhere,
// too. A blind one is salted and has no body digest: trying all card numbers with the salt beside it would
// find the number.
const (
	plainVersion  = "v1"
	saltedVersion = "v2"
	keyedVersion  = "v3"
	blindVersion  = "v4"
)

var (
	// ErrVersion is returned for a fingerprint with a version unknown to this release.
	ErrVersion = errors.New("fingerprint: unknown version")
	// ErrMalformed is returned for a string that is no fingerprint.
	ErrMalformed = errors.New("fingerprint: malformed")
	// ErrKey is returned for a fingerprint that was made under a key, if the caller has no key.
	ErrKey = errors.New("fingerprint: made under a key that is not here")
)

// The lengths of a digest and a salt in unpadded base64url.
const (
	digestLength = (sha256.Size*8 + 5) / 6
	saltSize     = 16
	saltLength   = (saltSize*8 + 5) / 6
)

var text = base64.RawURLEncoding.Strict()

// Fingerprint returns the print's fingerprint, for storage: the version and each part's digest in unpadded base64url,
// with spaces between. If the request has a secret, a random salt follows the version, so no two fingerprints are
// equal: compare fingerprints by [Print.Diff]. Without a key, a secret body does not count.
func (p *Print) Fingerprint() string {
	version := saltedVersion
	switch {
	case p.secret && len(p.key) > 0:
		version = keyedVersion
	case p.secret:
		version = blindVersion
	case p.counted == nil:
		return written(plainVersion, nil, &p.digests)
	}
	f := fingerprint{version: version, salt: make([]byte, saltSize)}
	rand.Read(f.salt) // never fails
	p.digestAs(&f)
	if f.version == blindVersion {
		f.digests[len(parts)-1] = [sha256.Size]byte{} // the body's
	}
	return f.String()
}

// Same reports whether a fingerprint belongs to the print.
func (p *Print) Same(stored string) bool {
	differ, err := p.Diff(stored)
	return err == nil && len(differ) == 0
}

// Diff returns the part names in which a stored fingerprint's request differs from the print: "method", "URL",
// "account" and "body", in this order. It returns none if they are the same request. The error is [ErrVersion],
// [ErrMalformed] or [ErrKey].
func (p *Print) Diff(stored string) ([]string, error) {
	theirs, err := parse(stored)
	if err != nil {
		return nil, err
	}
	if theirs.version == keyedVersion && len(p.key) == 0 {
		return nil, ErrKey
	}
	ours := fingerprint{version: theirs.version, salt: theirs.salt}
	p.digestAs(&ours)
	var differ []string
	for i, part := range parts {
		same := hmac.Equal(ours.digests[i][:], theirs.digests[i][:])
		switch {
		case part == "URL" && theirs.version == plainVersion && p.counted != nil:
			same = false // nothing that is withheld counted there
		case part == "body" && theirs.version == blindVersion:
			same = true
		}
		if !same {
			differ = append(differ, part)
		}
	}
	if theirs.version == keyedVersion && len(differ) == len(parts) {
		return nil, ErrKey // under another one nothing is alike
	}
	return differ, nil
}

// OnAnothersBehalf reports whether two stored fingerprints are known to belong to requests on behalf of different
// accounts. Those with salts can't be compared.
func OnAnothersBehalf(a, b string) bool {
	one, err := parse(a)
	other, failed := parse(b)
	at := slices.Index(parts[:], "account")
	return err == nil && failed == nil && one.version == plainVersion && other.version == plainVersion && one.digests[at] != other.digests[at]
}

// fingerprint is one that is taken apart.
type fingerprint struct {
	version string
	salt    []byte
	digests [len(parts)][sha256.Size]byte
}

// digestAs fills in the digests in f's version and under its salt.
func (p *Print) digestAs(f *fingerprint) {
	if f.version == plainVersion {
		f.digests = p.digests
		return
	}
	key := f.salt
	if f.version == keyedVersion {
		mac := hmac.New(sha256.New, p.key)
		mac.Write(f.salt)
		key = mac.Sum(nil)
	}
	mac := hmac.New(sha256.New, key)
	var message []byte
	for i, part := range parts {
		message = message[:0]
		for _, s := range []string{"onceward fingerprint " + f.version, part, string(p.digests[i][:])} {
			message = binary.BigEndian.AppendUint64(message, uint64(len(s)))
			message = append(message, s...)
		}
		if part == "URL" && p.counted != nil {
			message = append(message, p.counted[:]...)
		}
		mac.Reset()
		mac.Write(message)
		mac.Sum(f.digests[i][:0])
	}
}

func (f *fingerprint) String() string { return written(f.version, f.salt, &f.digests) }

func written(version string, salt []byte, digests *[len(parts)][sha256.Size]byte) string {
	var room [len(plainVersion) + 1 + saltLength + len(parts)*(1+digestLength)]byte
	out := append(room[:0], version...)
	if salt != nil {
		out = text.AppendEncode(append(out, ' '), salt)
	}
	for i := range digests {
		out = text.AppendEncode(append(out, ' '), digests[i][:])
	}
	return string(out)
}

var versionPattern = regexp.MustCompile(`^v[0-9]+$`)

func parse(s string) (f fingerprint, err error) {
	fields := strings.Split(s, " ")
	f.version, fields = fields[0], fields[1:]
	switch f.version {
	case plainVersion:
	case saltedVersion, keyedVersion, blindVersion:
		if len(fields) == 0 || len(fields[0]) != saltLength {
			return f, ErrMalformed
		}
		if f.salt, err = text.DecodeString(fields[0]); err != nil || len(f.salt) != saltSize {
			return f, ErrMalformed
		}
		fields = fields[1:]
	default:
		if versionPattern.MatchString(f.version) {
			return f, ErrVersion
		}
		return f, ErrMalformed
	}
	if len(fields) != len(parts) {
		return f, ErrMalformed
	}
	for i, digest := range fields {
		raw, err := text.DecodeString(digest)
		// The decoder skips line breaks; the length shows them.
		if err != nil || len(raw) != sha256.Size || len(digest) != digestLength {
			return f, ErrMalformed
		}
		copy(f.digests[i][:], raw)
	}
	return f, nil
}
