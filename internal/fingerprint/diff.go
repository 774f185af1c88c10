package fingerprint

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
)

var (
	// ErrVersion is returned for a fingerprint of a version that this release doesn't know.
	ErrVersion = errors.New("fingerprint: unknown version")
	// ErrMalformed is returned for a string that is no fingerprint.
	ErrMalformed = errors.New("fingerprint: malformed")
)

// Diff names the parts in which the requests of two fingerprints differ, of "method", "URL", "account" and "body", in
// this order; none if they are the same request. The error is [ErrVersion] or [ErrMalformed].
func Diff(a, b string) ([]string, error) {
	ours, err := parse(a)
	if err != nil {
		return nil, err
	}
	theirs, err := parse(b)
	if err != nil {
		return nil, err
	}
	var differ []string
	for i, part := range parts {
		if ours[i] != theirs[i] {
			differ = append(differ, part)
		}
	}
	return differ, nil
}

var versionPattern = regexp.MustCompile(`^v[0-9]+$`)

func parse(s string) (digests []string, err error) {
	fields := strings.Split(s, " ")
	if fields[0] != version {
		if versionPattern.MatchString(fields[0]) {
			return nil, ErrVersion
		}
		return nil, ErrMalformed
	}
	digests = fields[1:]
	if len(digests) != len(parts) {
		return nil, ErrMalformed
	}
	for _, digest := range digests {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(digest)
		// The decoder skips line breaks; the length shows them.
		if err != nil || len(raw) != sha256.Size || len(digest) != digestLength {
			return nil, ErrMalformed
		}
	}
	return digests, nil
}
