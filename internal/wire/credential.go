package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
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

// ErrAccountUnproven: in another account it would be another effect.
var ErrAccountUnproven error = otherCredential("the credential is another one than the operation was sent with, and it is not proven to be of the same account: " +
	"bring the first one back, or resolve the operation (Client.Resolve)")

// ErrAnotherAccount is of a credential that its provider says to be of another account.
var ErrAnotherAccount error = otherCredential("the credential's account is not the operation's: ask again with the credential that the operation was begun with")

// ErrCredentialUnrecorded: the credential that was sent is not recorded, and may be another one.
var ErrCredentialUnrecorded error = otherCredential("no credential was recorded when the operation was sent, and this may be another one: " +
	"resolve the operation (Client.Resolve)")

// otherCredential is the text of an error that errors.Is takes for ErrCredentialChanged.
type otherCredential string

func (e otherCredential) Error() string { return string(e) }

func (e otherCredential) Is(target error) bool { return target == ErrCredentialChanged }

// ErrAccountUnread: it is not known just now whether the credential is of the operation's account.
var ErrAccountUnread = errors.New("the credential is another one than the operation was sent with, and whose it is could not be read")

// ErrModeChanged: in another mode it would be another effect, such as a charge that is
// live in place of a test's.
var ErrModeChanged = errors.New("the credential is of another mode than the one that it was first sent with")

// ErrUnauthorized is in the error of an Authorize that failed.
var ErrUnauthorized = errors.New("Config.Authorize failed")

// NeedsOtherCredential reports whether a call failed with err for want of a credential that the next call may have.
// The request itself was not judged.
func NeedsOtherCredential(err error) bool {
	return errors.Is(err, ErrUnauthorized) || errors.Is(err, fault.ErrCredentialMissing) ||
		errors.Is(err, fault.ErrCredentialRefused) || errors.Is(err, ErrCredentialChanged) || errors.Is(err, ErrAccountUnread)
}

// BeyondQuery returns a request with the header of req and the part of its query that its target does not have. That part
// was added to it.
func BeyondQuery(req *http.Request, to *url.URL) *http.Request {
	if to.RawQuery == "" {
		return req
	}
	own := strings.Split(to.RawQuery, "&")
	u := *req.URL
	u.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(s string) bool { return slices.Contains(own, s) }), "&")
	return &http.Request{Header: req.Header, URL: &u}
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
//
// If keys are scoped to the credential, exact is set. Otherwise the credential stands for its account, and the digest
// leaves out parts that change from request to request: the times of a token, and all of a signature but its key's id.
func CredentialDigest(salt []byte, req *http.Request, key providers.Key, exact bool) string {
	var parts []string
	for name, values := range req.Header {
		if name = http.CanonicalHeaderKey(name); secret.Header(name) && name != "Cookie" && !secret.OneTime(name) && !secret.Propagated(name) && !tables.Key(key).InHeader(name) {
			value := strings.Join(values, "\n")
			if !exact && secret.Signature(name) {
				value = keyIDOf(value)
			} else {
				value = lasting(name, value, exact)
			}
			parts = append(parts, "header", name, value)
		}
	}
	_, query, _ := secret.SplitQuery(req.URL.RawQuery)
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if name = unescaped(name); parameter != "" && (key.Place != providers.KeyQuery || name != key.Name) {
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
// Signature Version 4, that is the id of the key that made it. Of a JSON Web Token, it is the claims, unless the
// credential is wanted exactly.
func lasting(name, value string, exact bool) string {
	if name != "Authorization" {
		return value
	}
	if signed, is := strings.CutPrefix(value, "AWS4-HMAC-SHA256 "); is {
		if _, key, is := strings.Cut(signed, "Credential="); is {
			key, _, _ = strings.Cut(key, "/")
			return "AWS4 " + key
		}
	}
	if token, is := strings.CutPrefix(value, "Bearer "); is && !exact {
		if claims := claimsOf(token); claims != "" {
			return "JWT " + claims
		}
	}
	return value
}

// keyIDOf returns the id of the key in a signature that names it, as by RFC 9421 section 2.3 or its drafts: keyid="a".
func keyIDOf(signature string) string {
	at := strings.Index(strings.ToLower(signature), "keyid=")
	if at < 0 {
		return ""
	}
	id := signature[at+len("keyid="):]
	if quoted, is := strings.CutPrefix(id, `"`); is {
		id, _, _ = strings.Cut(quoted, `"`)
		return id
	}
	return id[:len(id)-len(strings.TrimLeft(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/"))]
}

// passingClaims are the claims of a JSON Web Token that are new in each: its times and its number (RFC 7519 section 4.1,
// OpenID Connect Core section 2).
var passingClaims = []string{"exp", "iat", "nbf", "jti", "auth_time", "nonce"}

// claimsOf returns the claims of a JSON Web Token that names its subject, except the passing ones. It returns "" for any
// other token.
func claimsOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &claims) != nil {
		return ""
	}
	var subject string
	if json.Unmarshal(claims["sub"], &subject) != nil || subject == "" {
		return ""
	}
	for _, name := range passingClaims {
		delete(claims, name)
	}
	lasting, err := json.Marshal(claims)
	if err != nil {
		return ""
	}
	return string(lasting)
}

// SameCredential reports whether req carries what a digest was made of. One that
// can't be read is of another.
func SameCredential(digest string, req *http.Request, key providers.Key, exact bool) bool {
	text, _, _ := strings.Cut(strings.TrimPrefix(digest, digestVersion), ":")
	salt, _ := digestText.DecodeString(text)
	return subtle.ConstantTimeCompare([]byte(CredentialDigest(salt, req, key, exact)), []byte(digest)) == 1
}

func unescaped(s string) string {
	if text, err := url.QueryUnescape(s); err == nil {
		return text
	}
	return s
}
