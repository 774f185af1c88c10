package proxy

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/wire"
)

// isBasic reports whether a credential is a client's id and secret.
func isBasic(credential string) bool { return strings.HasPrefix(credential, "Basic ") }

// tokenOf returns the proxy's own token for a credential. It is the same after a restart, and shows nothing of the
// credential.
func tokenOf(credential []byte) string {
	sum := hmac.New(sha256.New, credential)
	sum.Write([]byte("a token of onceward's proxy"))
	return "onceward_" + hex.EncodeToString(sum.Sum(nil))
}

// giveToken answers a request for an access token by the proxy's own token. SDKs ask again after a while, and get the
// same one.
func (p *proxy) giveToken(w http.ResponseWriter, r *http.Request, credential string) {
	body, err := p.read(r)
	if err != nil {
		p.fail(w, err)
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || len(form) != 1 || len(form["grant_type"]) != 1 || form.Get("grant_type") != "client_credentials" {
		p.fail(w, &refusal{problem: otherGrant})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": tokenOf([]byte(credential)), "token_type": "Bearer", "expires_in": 8 * 3600})
}

// Exchange returns a transport for Config.HTTPClient. At an upstream with a TokenPath, the transport sends an access
// token in place of the credential. All other requests go on unchanged. So the journal's client knows the lasting
// credential alone, and an operation may go on under a later token.
//
// The transport gets a token from the upstream, and keeps the token until a minute before the token expires. A 401 ends
// a token at once. If there is no token, nothing is sent, and errors.Is finds [onceward.ErrNotSent] in the error.
//
// Base sends the requests. Nil means http.DefaultTransport. Calls are concurrent.
func Exchange(base http.RoundTripper, all ...Upstream) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &exchange{base: base, upstreams: append(upstreams(nil), all...), tokens: map[string]*token{}}
}

type exchange struct {
	base      http.RoundTripper
	upstreams upstreams
	mu        sync.Mutex
	tokens    map[string]*token // by credential and host
}

// token is the access token for one credential. The holder of the turn reads and changes the rest.
type token struct {
	turn  chan struct{}
	value string
	until time.Time
}

// noToken is why there is no access token. Its text is for callers.
type noToken struct{ cause error }

func (e *noToken) Error() string {
	return "The provider gave no access token, and " + e.cause.Error() + "."
}
func (e *noToken) Unwrap() error { return e.cause }

// errNoAnswer hides what a transport says.
var errNoAnswer = errors.New("did not answer")

// RoundTrip sends a request.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	u, credential := x.upstreams.of(r.URL), r.Header.Get("Authorization")
	if u == nil || u.TokenPath == "" || !isBasic(credential) {
		return x.base.RoundTrip(r)
	}
	t := x.token(u.URL.Host + " " + credential)
	value, err := x.value(r.Context(), t, u, credential)
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, onceward.NotSent(&noToken{err})
	}
	out := r.Clone(r.Context())
	out.Header.Set("Authorization", "Bearer "+value)
	resp, err := x.base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusUnauthorized {
		t.turn <- struct{}{}
		if t.value == value {
			t.until = time.Time{}
		}
		<-t.turn
	}
	resp.Request = r
	return resp, nil
}

func (x *exchange) token(of string) *token {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.tokens[of]
	if t == nil {
		t = &token{turn: make(chan struct{}, 1)}
		x.tokens[of] = t
	}
	return t
}

// value returns an access token that has not expired. One request at a time asks for one.
func (x *exchange) value(ctx context.Context, t *token, u *Upstream, credential string) (string, error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return "", errNoAnswer
	}
	defer func() { <-t.turn }()
	if time.Now().Before(t.until) {
		return t.value, nil
	}
	asked := time.Now()
	value, lasts, err := x.ask(ctx, u, credential)
	if err != nil {
		return "", err
	}
	t.value, t.until = value, asked.Add(lasts-time.Minute)
	return value, nil
}

// ask gets an access token from an upstream. The request has a context of its own, since the engine would take it for a
// part of the attempt.
func (x *exchange) ask(ctx context.Context, u *Upstream, credential string) (value string, lasts time.Duration, err error) {
	own, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	to := url.URL{Scheme: u.URL.Scheme, Host: u.URL.Host, Path: u.TokenPath}
	r, err := http.NewRequestWithContext(own, http.MethodPost, to.String(), strings.NewReader("grant_type=client_credentials"))
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("Authorization", credential)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	resp, err := x.base.RoundTrip(r)
	if err != nil {
		return "", 0, errNoAnswer
	}
	defer resp.Body.Close()
	const most = 1 << 20
	body, err := wire.ReadUpTo(resp.Body, most, resp.ContentLength)
	var answer struct {
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("answered by %d", resp.StatusCode)
	case err != nil || len(body) > most || json.Unmarshal(body, &answer) != nil || answer.AccessToken == "":
		return "", 0, errors.New("its answer can't be read")
	}
	return answer.AccessToken, time.Duration(min(max(answer.ExpiresIn, 0), 24*3600) * float64(time.Second)), nil
}
