package wire

import (
	"cmp"
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
	"ask again with the first one, so that a look-up may find it, or resolve the operation (Client.Resolve)")

// ErrAnotherAccount is for a credential that the provider says belongs to another account.
var ErrAnotherAccount error = otherCredential("the credential's account is not the operation's: " +
	"ask again with the credential of that account, so that a look-up may find it, or resolve the operation (Client.Resolve)")

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

// BeyondQuery returns a request with req's header and the part of its query that its target does not have. That part
// was added to it.
func BeyondQuery(req *http.Request, to *url.URL) *http.Request {
	if to.RawQuery == "" {
		return req
	}
	own := make(map[string]bool) // the query may be long
	for s := range strings.SplitSeq(to.RawQuery, "&") {
		own[s] = true
	}
	u := *req.URL
	u.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(s string) bool { return own[s] }), "&")
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

// NewDigest returns the CredentialDigest for a request under a route, with a fresh salt, for the journal.
func NewDigest(req *http.Request, route *tables.Route) string {
	return CredentialDigest(NewSalt(), req, OwnerOf(route))
}

// Owner says which parts of a request show whose it is.
type Owner struct {
	// Key is where the key stands, which is no credential.
	Key providers.Key
	// Exact is set if keys are scoped to the credential. Otherwise the credential stands for its account. Then the
	// parts that change from request to request do not count: a token's times, and a signature except the key's id.
	Exact bool
	// AccountHeaders are those of the provider's table.
	AccountHeaders []string
}

// OwnerOf returns what a route's table says of it.
func OwnerOf(route *tables.Route) Owner {
	o := Owner{Key: route.Endpoint.Key}
	if route.Listed {
		o.Exact, o.AccountHeaders = route.Provider.CredentialScoped, route.Provider.AccountHeaders
	}
	return o
}

// CredentialDigest returns a salted SHA-256 over the credentials' names and values in req, and over the headers that
// select the account. It leaves out cookies, the key, and values that approve one request alone. It begins with its
// version and the salt.
//
// A signature alone does not show whose its key is. If req has no other credential, the headers that name an owner count too.
func CredentialDigest(salt []byte, req *http.Request, o Owner) string {
	var parts []string
	shown := false // whose the credentials are
	add := func(kind, name, value string, signature bool) {
		if signature && !o.Exact {
			value = keyIDOf(value)
		}
		shown = shown || value != ""
		parts = append(parts, kind, name, value)
	}
	selects := func(name string) bool {
		return slices.ContainsFunc(o.AccountHeaders, func(h string) bool { return strings.EqualFold(h, name) })
	}
	for name, values := range req.Header {
		if name = http.CanonicalHeaderKey(name); secret.Header(name) && name != "Cookie" && !secret.OneTime(name) && !secret.Propagated(name) && !tables.Key(o.Key).InHeader(name) {
			add("header", name, lasting(name, strings.Join(values, "\n"), o.Exact), secret.Signature(name))
		}
	}
	_, query, _ := secret.SplitQuery(req.URL.RawQuery)
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if name = unescaped(name); parameter != "" && (o.Key.Place != providers.KeyQuery || name != o.Key.Name) {
			add("query", name, unescaped(value), secret.Signature(name))
		}
	}
	unnamed := len(parts) > 0 && !shown
	for name, values := range req.Header {
		if name = http.CanonicalHeaderKey(name); !secret.Header(name) && (selects(name) || unnamed && namesOwner(name)) {
			add("header", name, strings.Join(values, "\n"), false)
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

// ownerWords are the words in the names of headers that say whose a request is.
var ownerWords = []string{"client", "merchant", "account", "partner", "tenant", "member", "vendor", "seller", "shop", "store", "company",
	"organization", "organisation", "org", "team", "project", "user", "username", "app", "application", "customer", "consumer", "entity", "wallet"}

// namesOwner reports whether a header of this name, which is no credential, says whose the request is: X-Merchant-Id.
func namesOwner(name string) bool {
	return name != "User-Agent" && slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c == '-' || c == '_' }), func(word string) bool {
		return slices.Contains(ownerWords, strings.TrimSuffix(word, "id"))
	})
}

// lasting returns the part of a credential that stays the same from request to request. In an AWS Signature Version 4,
// the lasting part is the id of the signing key. Unless the credential is wanted exactly, the lasting part is a JSON
// Web Token's claims, and the key's id in any signature that names the key.
func lasting(name, value string, exact bool) string {
	if name != "Authorization" {
		return value
	}
	scheme, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
	if scheme == "AWS4-HMAC-SHA256" {
		if _, key, is := strings.Cut(rest, "Credential="); is {
			key, _, _ = strings.Cut(key, "/")
			return "AWS4 " + key
		}
	}
	switch {
	case exact:
	case strings.EqualFold(scheme, "Bearer"):
		if claims := claimsOf(rest); claims != "" {
			return "JWT " + claims
		}
	case secret.Signs(name, value):
		if id := cmp.Or(keyIDOf(rest), keyBefore(rest)); id != "" {
			return scheme + " " + id
		}
	}
	return value
}

// keyNames are the parameters of a signature that name its key: keyid by RFC 9421 section 2.3 and its drafts, id by
// Hawk, username by RFC 7616 section 3.4. Credential belongs to AWS's scheme and similar ones, which add a date behind
// "/".
var keyNames = []string{"keyid", "credential", "id", "username"}

// keyIDOf returns the id of the key in a signature that names it: keyid="a".
func keyIDOf(signature string) string {
	for signature != "" {
		var parameter string
		parameter, signature = nextParameter(signature)
		name, id, is := strings.Cut(parameter, "=")
		if !is || !slices.Contains(keyNames, strings.ToLower(name)) {
			continue
		}
		if id = strings.Trim(id, `"`); strings.EqualFold(name, "credential") {
			id, _, _ = strings.Cut(id, "/")
		}
		return id
	}
	return ""
}

// nextParameter cuts a list of parameters after the first one. A quoted value ends with its quotation mark.
func nextParameter(list string) (parameter, rest string) {
	quoted := false
	for i := range len(list) {
		switch list[i] {
		case '"':
			quoted = !quoted
		case ',', ';', ' ':
			if !quoted {
				return list[:i], list[i+1:]
			}
		}
	}
	return list, ""
}

// keyBefore returns the id of the key in a signature that begins with it, as Azure's SharedKey does: "a:signature".
func keyBefore(signature string) string {
	id, _, is := strings.Cut(signature, ":")
	if !is || strings.ContainsAny(id, `=,;" `) {
		return ""
	}
	return id
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
func SameCredential(digest string, req *http.Request, o Owner) bool {
	text, _, _ := strings.Cut(strings.TrimPrefix(digest, digestVersion), ":")
	salt, _ := digestText.DecodeString(text)
	return subtle.ConstantTimeCompare([]byte(CredentialDigest(salt, req, o)), []byte(digest)) == 1
}

func unescaped(s string) string {
	if text, err := url.QueryUnescape(s); err == nil {
		return text
	}
	return s
}
