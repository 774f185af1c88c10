package onceward

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/providers"
)

// errCredentialChanged: under another credential the provider does not know the
// key, and would execute the operation anew.
var errCredentialChanged = errors.New("the credential is another one than the operation was begun with, and the provider scopes keys to it")

// errModeChanged: in another mode it would be another effect, such as a charge that is
// live in place of a test's.
var errModeChanged = errors.New("the credential is of another mode than the one that it was first sent with")

// checkMode has an operation go out in one mode, such as "test" or "live", where its
// credentials show that.
func (r *run) checkMode(req *http.Request) error {
	if !r.route.Listed {
		return nil
	}
	was, is := r.op.Mode, r.route.Provider.Mode(req.Header)
	if was == "" && r.attempts > 0 {
		was = r.mode
	}
	if was != "" && is != "" && was != is {
		return errModeChanged
	}
	if is != "" {
		r.mode = is
	}
	return nil
}

const digestVersion = "1:"

var digestText = base64.RawURLEncoding

func newSalt() []byte {
	salt := make([]byte, 16)
	rand.Read(salt) // never fails
	return salt
}

// credentialDigest is a salted SHA-256 over the names and values of what carries
// credentials in req, but cookies, the key, and what approves one request alone. It
// begins with its version and the salt.
func credentialDigest(salt []byte, req *http.Request, key providers.Key) string {
	var parts []string
	for name, values := range req.Header {
		if name = http.CanonicalHeaderKey(name); secret.Header(name) && name != "Cookie" && !secret.OneTime(name) && !secret.Propagated(name) && !key.InHeader(name) {
			parts = append(parts, "header", name, strings.Join(values, "\n"))
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

// sameCredential tells whether req carries what a digest was made of. One that
// can't be read is of another.
func sameCredential(digest string, req *http.Request, key providers.Key) bool {
	rest, known := strings.CutPrefix(digest, digestVersion)
	text, _, _ := strings.Cut(rest, ":")
	salt, err := digestText.DecodeString(text)
	if !known || err != nil {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(credentialDigest(salt, req, key)), []byte(digest)) == 1
}

func unescaped(s string) string {
	if text, err := url.QueryUnescape(s); err == nil {
		return text
	}
	return s
}
