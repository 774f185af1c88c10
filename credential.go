package onceward

import (
	"context"
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

	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// errCredentialChanged: under another credential the provider does not know the
// key, and would execute the operation anew.
var errCredentialChanged = errors.New("the credential is another one than the operation was begun with, and the provider scopes keys to it")

// errModeChanged: in another mode it would be another effect, such as a charge that is
// live in place of a test's.
var errModeChanged = errors.New("the credential is of another mode than the one that it was first sent with")

// errUnauthorized is in the error of an Authorize that failed.
var errUnauthorized = errors.New("Config.Authorize failed")

// lacksCredential tells whether it was for want of a credential that a call came to err,
// which the next one may have: the request itself was not judged.
func lacksCredential(err error) bool {
	return errors.Is(err, errUnauthorized) || errors.Is(err, ErrCredentialMissing) ||
		errors.Is(err, ErrCredentialRefused) || errors.Is(err, errCredentialChanged)
}

// compose makes the request of one attempt, if its credential is the operation's.
func (r *run) compose(ctx, sent context.Context, to *url.URL) (*http.Request, error) {
	return r.admit(r.requests.compose(ctx, sent, to))
}

// admit takes the results of the composer. It lets no request go out with another
// credential than the operation was begun with, or in another mode, and takes note of one that is missing.
func (r *run) admit(req *http.Request, err error) (*http.Request, error) {
	if err != nil {
		if lacked, is := err.(*lackedCredential); is { // not one of a call that Authorize made
			r.permit.Lacks(lacked.what, r.attempt.started, r.client.now())
		}
		return nil, err
	}
	scoped := r.op.Credential != "" && r.keysAreScoped()
	if scoped && !sameCredential(r.op.Credential, req, r.route.Endpoint.Key) {
		err = errCredentialChanged
	} else { // one of another mode is of another account, too, and nobody need be asked whose it is
		err = r.checkMode(req)
	}
	if err != nil {
		return nil, err
	}
	if err := r.inItsAccount(req); err != nil {
		return nil, err
	}
	return req, nil
}

// keysAreScoped tells whether the provider knows the key under the credential alone that the
// operation was begun with. Else that is recorded for looks.
func (r *run) keysAreScoped() bool {
	return !r.route.Listed || r.route.Provider.CredentialScoped
}

// checkMode has an operation go out in one mode, such as "test" or "live", where its
// credentials show that.
func (r *run) checkMode(req *http.Request) error {
	if !r.route.Listed {
		return nil
	}
	was, is := r.op.Mode, tables.Mode(r.route.Provider, req.Header)
	if was == "" {
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

// sign has the intent say what the journal keeps of the credential: its mode, where it
// shows that, and a digest, where the provider knows the key under that one only.
func (k *call) sign() error {
	p, looks := k.route.Provider, k.client.looksFor(k.route)
	if p == nil || !k.route.Listed || !p.CredentialScoped && len(p.CredentialModes) == 0 && !looks {
		return nil
	}
	k.intent.Mode = tables.Mode(p, k.req.Header)
	if !p.CredentialScoped && !looks && (k.intent.Mode != "" || k.client.cfg.Authorize == nil) {
		return nil
	}
	ctx, end := context.WithCancelCause(naming.Without(k.ctx))
	defer end(nil)
	ctx, cancel := context.WithTimeout(ctx, min(k.client.cfg.AttemptTimeout, k.ends.Sub(k.client.now())))
	defer cancel()
	defer context.AfterFunc(k.client.lifecycle.life, func() { end(context.Cause(k.client.lifecycle.life)) })()
	requests := k.composer()
	req, err := requests.compose(ctx, ctx, k.clean)
	switch {
	case err != nil && k.client.lifecycle.life.Err() != nil:
		return k.fail(ErrShutdown, nil)
	case err != nil && p.CredentialScoped && k.enqueues: // the journal may wait for the caller's transaction: it is not asked
		return k.fail(ErrCredentialMissing, err)
	case err != nil && p.CredentialScoped:
		return k.notBegun(err)
	case err != nil:
		return nil // its attempt will tell
	}
	k.intent.Mode = tables.Mode(p, req.Header)
	if p.CredentialScoped || looks {
		k.intent.Credential = credentialDigest(newSalt(), req, k.route.Endpoint.Key)
	}
	if looks {
		k.intent.Account = k.whoSends(ctx, req)
	}
	return nil
}

// composer makes requests as the call's attempts would be, but for the key, which the
// journal has not given out yet.
func (k *call) composer() composer {
	return composer{cfg: &k.client.cfg, caller: k.req, route: &k.route, query: k.query, frozen: &k.intent.Request}
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

// lasting is what stays the same of a credential from request to request: of a signature of
// AWS's Signature Version 4, whose key made it.
func lasting(name, value string) string {
	if signed, is := strings.CutPrefix(value, "AWS4-HMAC-SHA256 "); is && name == "Authorization" {
		if _, key, is := strings.Cut(signed, "Credential="); is {
			key, _, _ = strings.Cut(key, "/")
			return "AWS4 " + key
		}
	}
	return value
}

// sameCredential tells whether req carries what a digest was made of. One that
// can't be read is of another.
func sameCredential(digest string, req *http.Request, key providers.Key) bool {
	text, _, _ := strings.Cut(strings.TrimPrefix(digest, digestVersion), ":")
	salt, _ := digestText.DecodeString(text)
	return subtle.ConstantTimeCompare([]byte(credentialDigest(salt, req, key)), []byte(digest)) == 1
}

func unescaped(s string) string {
	if text, err := url.QueryUnescape(s); err == nil {
		return text
	}
	return s
}
