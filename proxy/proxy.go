package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/server"
)

// Upstream is one provider, and its callers. URL and Credentials are required.
type Upstream struct {
	// URL is the provider's scheme and host. The scheme is https, unless the host is the loopback interface.
	URL *url.URL

	// Credentials are the callers' values of CredentialHeader, such as "Bearer sk_live_…", each of 16 bytes or more. A
	// request with another value, or with none, gets a 403 before anything else, a recorded answer included. The
	// background sends with the first. While a key changes, give the new key first and the old key second.
	Credentials [][]byte

	// CredentialHeader is the header of Credentials. Adyen's is X-API-Key. Default: Authorization.
	CredentialHeader string

	// TokenPath is the path of the OAuth endpoint for access tokens, if the provider takes no lasting key: for PayPal,
	// /v1/oauth2/token. Credentials are then the values "Basic …" of a client's id and secret, and Config.HTTPClient
	// needs [Exchange].
	//
	// A caller sends the credential itself, or asks the proxy at this path for a token, as SDKs do. This token proves
	// that the caller had the credential. It is no token of the provider's, and ends with the credential. The provider's
	// own tokens get a 403.
	TokenPath string

	// Scope is the namespace for the names. A caller who sends another Onceward-Scope gets a 403. Empty means that the
	// caller chooses: the caller then reaches the names of every scope.
	Scope string

	// Flavour words the refusals, in the form that the provider's SDKs take for an error. Default: by the provider's
	// table, or New returns an error.
	Flavour server.Flavour

	// MadeUp reports whether a caller's idempotency key is one that an SDK makes for each call. Such a key names no
	// operation, and is dropped under a name. Default for Stripe: stripe-node's keys and random UUIDs, which Stripe's other
	// SDKs make. Default elsewhere: none.
	MadeUp func(key string) bool

	// Hosts are the accepted Host headers, without ports. Others get a 403, so no page in a browser reaches the proxy
	// under a name of its own. Default: the loopback interface's names, and the provider's.
	Hosts []string

	// MaxWait is how long a caller waits for an operation, which then goes on. Default: 20 s, below the SDKs' own
	// timeouts.
	MaxWait time.Duration

	// MaxRequest is the largest body of a request that may have an effect, in bytes. A larger one gets a 413. Default:
	// 8 MiB.
	MaxRequest int64
}

// minCredential is the length of the shortest credential, in bytes. A scheme without a token is shorter.
const minCredential = 16

// New returns a handler in front of one upstream. Requests that may have an effect go through c, by their name. GET and
// HEAD go on without a record. c needs Config.Secret, Config.Authorize and a table for the upstream: see [Authorize]. The
// caller ends c after the HTTP server. The error names the missing or unsafe setting.
func New(c *onceward.Client, u Upstream) (http.Handler, error) {
	if c == nil {
		return nil, errors.New("proxy: New: the client is nil: make one by onceward.New")
	}
	own := core.Of(c)
	if err := u.check(own); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &proxy{upstream: u, sends: c.Transport(), core: own}
	for _, credential := range u.Credentials {
		p.callers = append(p.callers, caller{digest(credential), string(credential)})
		if u.TokenPath != "" {
			p.callers = append(p.callers, caller{digest([]byte("Bearer " + tokenOf(credential))), string(credential)})
		}
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite:      p.rewrite,
		Transport:    p,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { p.fail(w, err) },
		ErrorLog:     slog.NewLogLogger(own.Observer.Log.Handler(), slog.LevelWarn),
	}
	return p, nil
}

// check fills in the defaults. The error names a setting that is missing or unsafe.
func (u *Upstream) check(c *core.Core) error {
	switch {
	case u.URL == nil || u.URL.Host == "" || u.URL.Scheme != "http" && u.URL.Scheme != "https":
		return errors.New("the field Upstream.URL is missing or no address: give scheme and host, such as https://api.stripe.com")
	case u.URL.User != nil || strings.Trim(u.URL.Path, "/") != "" || u.URL.RawQuery != "" || u.URL.Fragment != "" || u.URL.Opaque != "":
		return errors.New("the field Upstream.URL has more than a scheme and a host: the callers' requests bring the path")
	case !wire.Confidential(u.URL):
		return errors.New("the field Upstream.URL would send credentials unencrypted: give an https address, or one of the loopback interface")
	case c.Secret == nil:
		return errors.New("the client lacks Config.Secret: without a secret, a repeated request with a card's number gets the first answer whatever it says")
	case c.Authorize == nil:
		return errors.New("the client lacks Config.Authorize, so no operation could go on without its caller: set it to proxy.Authorize")
	case len(u.Credentials) == 0:
		return errors.New("the field Upstream.Credentials is empty: give the callers' values of Upstream.CredentialHeader")
	case u.TokenPath != "" && (!strings.HasPrefix(u.TokenPath, "/") || u.CredentialHeader != ""):
		return errors.New("the field Upstream.TokenPath is no path, or has Upstream.CredentialHeader beside it: give a path, and credentials of the header Authorization")
	case u.MaxWait < 0 || u.MaxRequest < 0:
		return errors.New("the fields Upstream.MaxWait and Upstream.MaxRequest can't be negative")
	}
	for i, credential := range u.Credentials {
		if len(credential) < minCredential {
			return fmt.Errorf("Upstream.Credentials[%d] has %d bytes: give a whole value of the header, of %d bytes or more", i, len(credential), minCredential)
		}
		if bytes.ContainsFunc(credential, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("Upstream.Credentials[%d] has a character that is not printable ASCII, which no SDK sends: give the whole value without an ellipsis or a line break", i)
		}
		if u.TokenPath != "" && !isBasic(string(credential)) {
			return fmt.Errorf(`Upstream.Credentials[%d] is no value "Basic …": give client id and secret in base64, since Upstream.TokenPath exchanges both for a token`, i)
		}
	}
	provider := c.Router.Route(http.MethodPost, u.URL).Provider
	if provider == nil {
		return fmt.Errorf("no table in Config.Providers serves %s: add its table, or providers.Raw for an API of your own", u.URL.Host)
	}
	if err := u.speak(provider.Name); err != nil {
		return err
	}
	u.CredentialHeader = u.header()
	if len(u.Hosts) == 0 {
		u.Hosts = []string{"localhost", "127.0.0.1", "::1", u.URL.Hostname()}
	}
	u.Hosts = slices.Clone(u.Hosts)
	for i, host := range u.Hosts {
		u.Hosts[i] = hostname(host)
	}
	u.MaxWait = cmp.Or(u.MaxWait, 20*time.Second)
	u.MaxRequest = cmp.Or(u.MaxRequest, 8<<20)
	return nil
}

// header returns the credentials' header.
func (u *Upstream) header() string {
	return http.CanonicalHeaderKey(cmp.Or(u.CredentialHeader, "Authorization"))
}

// upstreams are those of a client, which serves one at each host.
type upstreams []Upstream

// of returns the upstream that a request goes to, or nil.
func (us upstreams) of(to *url.URL) *Upstream {
	for i := range us {
		if u := us[i].URL; u != nil && strings.EqualFold(to.Scheme, u.Scheme) && strings.EqualFold(to.Host, u.Host) {
			return &us[i]
		}
	}
	return nil
}

// Authorize returns a Config.Authorize that adds the first credential of the request's upstream, unless the request has
// a credential. It finds the upstream by scheme and host: a client serves one upstream at each host.
func Authorize(all ...Upstream) func(*http.Request) error {
	known := upstreams(slices.Clone(all))
	return func(r *http.Request) error {
		if u := known.of(r.URL); u != nil && len(u.Credentials) > 0 && len(r.Header[u.header()]) == 0 {
			r.Header.Set(u.header(), string(u.Credentials[0]))
		}
		return nil
	}
}
