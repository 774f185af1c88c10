package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// ErrCredentialChanged: under another credential the provider does not know the
// key, and would execute the operation anew.
var ErrCredentialChanged = errors.New("the credential is another one than the operation was begun with, and the provider scopes keys to it")

// ErrCredentialUnrecorded: an earlier table did not scope keys to the credential. The credential that was sent is not
// recorded, and may be another one.
var ErrCredentialUnrecorded = fmt.Errorf("no credential was recorded when it was sent, and perhaps %w", ErrCredentialChanged)

// ErrModeChanged: in another mode it would be another effect, such as a charge that is
// live in place of a test's.
var ErrModeChanged = errors.New("the credential is of another mode than the one that it was first sent with")

// ErrUnauthorized is in the error of an Authorize that failed.
var ErrUnauthorized = errors.New("Config.Authorize failed")

// NeedsOtherCredential reports whether a call failed with err for want of a credential that the next call may have.
// The request itself was not judged.
func NeedsOtherCredential(err error) bool {
	return errors.Is(err, ErrUnauthorized) || errors.Is(err, fault.ErrCredentialMissing) ||
		errors.Is(err, fault.ErrCredentialRefused) || errors.Is(err, ErrCredentialChanged)
}

const digestVersion = "1:"

var digestText = base64.RawURLEncoding

// NewSalt returns a salt for CredentialDigest.
func NewSalt() []byte {
	salt := make([]byte, 16)
	rand.Read(salt) // never fails
	return salt
}

// CredentialDigest returns a salted SHA-256 over the names and values of the credentials in req. It leaves out
// cookies, the key, and values that approve one request alone. It begins with its version and the salt.
func CredentialDigest(salt []byte, req *http.Request, key providers.Key) string {
	var parts []string
	for name, values := range req.Header {
		if name = http.CanonicalHeaderKey(name); secret.Header(name) && name != "Cookie" && !secret.OneTime(name) && !secret.Propagated(name) && !tables.Key(key).InHeader(name) {
			parts = append(parts, "header", name, lasting(name, strings.Join(values, "\n")))
		}
	}
	_, query, _ := secret.SplitQuery(req.URL.RawQuery)
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if name = unescaped(name); key.Place != providers.KeyQuery || name != key.Name {
			parts = append(parts, "query", name, unescaped(value))
		}
	}
	triples := slices.Collect(slices.Chunk(parts, 3))
	slices.SortFunc(triples, slices.Compare[[]string])
	h := sha256.New()
	h.Write(salt)
	for _, part := range slices.Concat(triples...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return digestVersion + digestText.EncodeToString(salt) + ":" + digestText.EncodeToString(h.Sum(nil))
}

// lasting returns the part of a credential that stays the same from request to request. Of a signature of AWS's
// Signature Version 4, that is the id of the key that made it.
func lasting(name, value string) string {
	if signed, is := strings.CutPrefix(value, "AWS4-HMAC-SHA256 "); is && name == "Authorization" {
		if _, key, is := strings.Cut(signed, "Credential="); is {
			key, _, _ = strings.Cut(key, "/")
			return "AWS4 " + key
		}
	}
	return value
}

// SameCredential reports whether req carries what a digest was made of. One that
// can't be read is of another.
func SameCredential(digest string, req *http.Request, key providers.Key) bool {
	text, _, _ := strings.Cut(strings.TrimPrefix(digest, digestVersion), ":")
	salt, _ := digestText.DecodeString(text)
	return subtle.ConstantTimeCompare([]byte(CredentialDigest(salt, req, key)), []byte(digest)) == 1
}

func unescaped(s string) string {
	if text, err := url.QueryUnescape(s); err == nil {
		return text
	}
	return s
}
