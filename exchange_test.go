package onceward_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// exchange is a request that has a credential in its body and gets one in its answer.
type exchange struct {
	name, contentType, body string
	tidy                    bool
}

var exchanges = []exchange{
	{"a token request", form, "grant_type=client_credentials&client_secret=" + canary, true},
	{"a refresh", form + "; charset=utf-8", "grant_type=refresh_token&refresh_token=" + canary, true},
	{"a token request in JSON", "application/json", `{"grant_type":"client_credentials","client_id":"a","client_secret":"` + canary + `","audience":"b"}`, true},

	{"with a stray semicolon", form, "grant_type=password;scope=a&password=" + canary, false},
	{"parted by semicolons", form, "scope=a;grant_type=password;password=" + canary, false},
	{"with a lone %", form, "grant_type=password&scope=100%&password=" + canary, false},
	{"with a type that is joined", form + ", " + form, "grant_type=password&password=" + canary, false},
	{"with a type that is no type", "form", "grant_type=password&password=" + canary, false},
	{"with no type", "", "grant_type=password&password=" + canary, false},
	{"with an escaped name", form, "%67rant_type=password&grant_type=a&password=" + canary, false},
	{"with fields of its own", form, "grant_type=password&amount=100&password=" + canary, false},
	{"in JSON, with members of its own", "application/json", `{"grant_type":"password","amount":100,"password":"` + canary + `"}`, false},
	{"in JSON, cut short", "application/json", `{"grant_type":"password","password":"` + canary + `"`, false},
	{"in JSON, in camel case", "application/json", `{"clientId":"a","clientSecret":"` + canary + `"}`, false},
	{"in JSON that says it is a form", form, `{"grant_type":"password","password":"` + canary + `"}`, false},
	{"a code for a token, without a grant", "application/json", `{"client_id":"a","client_secret":"` + canary + `","code":"b"}`, false},
	{"a revocation", form, "token=" + canary + "&token_type_hint=refresh_token", false},
	{"a revocation by a client that shows who it is", form, "token=" + canary + "&client_id=a&client_secret=b", false},
	{"a revocation in JSON", "application/json", `{"token":"` + canary + `"}`, false},
	{"a pushed authorization", form, "response_type=code&client_id=a&code_challenge=" + canary, false},
	{"a pushed authorization, signed", form, "client_id=a&request=" + canary, false},
	{"in parts", "multipart/form-data; boundary=b", inParts("grant_type", "password", "password", canary), false},
	{"in parts that say they are a form", form, inParts("grant_type", "password", "password", canary), false},
	{"in parts, cut short", "multipart/form-data; boundary=b", inParts("grant_type", "password", "password", canary)[:100], false},
	{"in JSON, escaped", "application/json", `{"grant\u005ftype":"password","password":"` + canary + `"}`, true},
	{"in JSON, in another case", "application/json", `{"ClientId":"a","ClientSecret":"` + canary + `"}`, false},
	{"in another case", form, "GRANT_TYPE=password&PASSWORD=" + canary, false},
	{"AWS's credentials", form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&WebIdentityToken=" + canary, false},
	{"an access key of AWS", form, "Action=CreateAccessKey&Version=2010-05-08&UserName=" + canary, false},
}

// inParts are the names and values as multipart/form-data.
func inParts(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString("--b\r\nContent-Disposition: form-data; name=\"" + pairs[i] + "\"\r\n\r\n" + pairs[i+1] + "\r\n")
	}
	return b.String() + "--b--\r\n"
}

func (e exchange) options(url string) []option {
	options := []option{to(http.MethodPost, url), body(e.body), with("X-Request-Id", marker)}
	if e.contentType == "" {
		return append(options, func(r *http.Request) { r.Header.Del("Content-Type") })
	}
	return append(options, with("Content-Type", e.contentType))
}

const gotToken = `{"access_token":"` + canary + `-token"}`

// What a name or a parent has journaled is journaled without the secret, on any host.
func TestNoTokenIsWrittenOfARequestForOne(t *testing.T) {
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			for how, ask := range map[string]struct {
				url string
				ctx func(t *testing.T) context.Context
			}{
				"by name, anywhere":         {"https://elsewhere.example/token", func(t *testing.T) context.Context { return named(t, "order-1") }},
				"by name, at a provider":    {ownURL, func(t *testing.T) context.Context { return named(t, "order-1") }},
				"under a parent, anywhere":  {"https://elsewhere.example/token", func(t *testing.T) context.Context { return onceward.WithParent(t.Context(), "parent-1") }},
				"without either, at a host": {ownURL, func(t *testing.T) context.Context { return t.Context() }},
			} {
				var heard confession
				dir := t.TempDir()
				l := (&line{}).always(says(200, gotToken))
				p := start(t, l, heard.listen(onceward.Config{
					Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{own()},
				}))
				out := p.ask(ask.ctx(t), e.options(ask.url)...)
				require.NoError(t, out.err, how)
				assert.Equal(t, gotToken, out.body, how)
				require.Len(t, l.sent(), 1)
				assert.Equal(t, e.body, l.sent()[0].Body, how)
				if how == "under a parent, anywhere" && e.tidy {
					assert.Empty(t, p.everything(), "it passes")
				} else {
					require.Len(t, p.everything(), 1, how)
					again := p.ask(ask.ctx(t), e.options(ask.url)...)
					if out.op.ID == "order-1" {
						require.ErrorIs(t, again.err, onceward.ErrAnswerGone, "it is not answered by the first token")
						assert.Len(t, l.sent(), 1)
					}
				}
				requireNoCanary(t, "logs, Trace, OnSettled and errors", []byte(heard.String()))
				require.NoError(t, p.Shutdown(context.Background()))
				requireNoCanaryOnDisk(t, dir, 1)
			}
		})
	}
}

// Whoever adds a field to a charge does not have it sent unrecorded.
func TestNothingThatARequestSaysHasANamedOrKeyedOnePass(t *testing.T) {
	for _, e := range append(exchanges, exchange{name: "a charge", contentType: form, body: chargeForm + "&grant_type=password"},
		exchange{name: "a charge in JSON", contentType: "application/json", body: `{"amount":100,"grant_type":"password"}`}) {
		t.Run(e.name, func(t *testing.T) {
			for how, ask := range map[string]struct {
				url     string
				ctx     func() context.Context
				options []option
			}{
				"by name":                              {ownURL, func() context.Context { return named(t, "order-1") }, nil},
				"by name, elsewhere":                   {"https://elsewhere.example/", func() context.Context { return named(t, "order-1") }, nil},
				"by its key":                           {ownURL, t.Context, []option{carrying("a-key-of-its-own")}},
				"by name under a parent, elsewhere":    {"https://elsewhere.example/", func() context.Context { return onceward.WithParent(named(t, "order-1"), "parent-1") }, nil},
				"by its key under a parent, elsewhere": {"https://elsewhere.example/", func() context.Context { return onceward.WithParent(t.Context(), "parent-1") }, []option{carrying("a-key-of-its-own")}},
			} {
				l := (&line{}).then(loses())
				p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, Backoff: once})
				for range 3 {
					_ = p.ask(ask.ctx(), append(e.options(ask.url), ask.options...)...)
				}
				require.Len(t, p.everything(), 1, how)
				keys := map[string]bool{}
				for _, s := range l.sent() {
					keys[s.Key] = true
				}
				assert.Len(t, keys, 1, "%s: every attempt is the same operation's", how)
				if strings.HasSuffix(how, "elsewhere") {
					assert.Len(t, l.sent(), 1, "%s: nothing is known there, so that it is not sent again", how)
				}
			}
		})
	}
}

// An SDK that gets itself a token in the middle of a step is no operation of the step.
func TestATidyTokenRequestUnderAParentPassesWhereNoContractSaysOtherwise(t *testing.T) {
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
			ctx := onceward.WithParent(t.Context(), "parent-1")
			require.NoError(t, p.ask(ctx, e.options("https://elsewhere.example/token")...).err)
			require.NoError(t, p.ask(ctx, e.options("https://own.example/..%2Ftoken")...).err)
			journaled := 2
			if e.tidy {
				journaled = 0
				assert.Equal(t, e.contentType, l.sent()[0].Header.Get("Content-Type"))
				assert.Empty(t, l.sent()[0].Key)
			}
			assert.Len(t, p.everything(), journaled)
		})
	}
	for name, options := range map[string][]option{
		"a PUT":             {to(http.MethodPut, "https://elsewhere.example/token"), body("grant_type=password")},
		"with a query":      {to(http.MethodPost, "https://elsewhere.example/token?amount=1"), body("grant_type=password")},
		"with a coding":     {to(http.MethodPost, "https://elsewhere.example/token"), body("grant_type=password"), with("Content-Encoding", "gzip")},
		"with two types":    {to(http.MethodPost, "https://elsewhere.example/token"), body("grant_type=password"), func(r *http.Request) { r.Header.Add("Content-Type", form) }},
		"twice":             {to(http.MethodPost, "https://elsewhere.example/token"), body("grant_type=password&grant_type=password")},
		"with an empty one": {to(http.MethodPost, "https://elsewhere.example/token"), body("grant_type=")},
		"without one":       {to(http.MethodPost, "https://elsewhere.example/token"), body("username=a")},
		"a member twice":    {to(http.MethodPost, "https://elsewhere.example/token"), with("Content-Type", "application/json"), body(`{"grant_type":"a","grant_type":"b"}`)},
		"an object inside":  {to(http.MethodPost, "https://elsewhere.example/token"), with("Content-Type", "application/json"), body(`{"grant_type":"a","scope":{"amount":1}}`)},
		"more than one":     {to(http.MethodPost, "https://elsewhere.example/token"), with("Content-Type", "application/json"), body(`{"grant_type":"a"}{"amount":1}`)},
	} {
		t.Run(name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
			require.NoError(t, p.ask(onceward.WithParent(t.Context(), "parent-1"), options...).err)
			assert.Len(t, p.everything(), 1)
		})
	}
}

// A table for whatever host names none: it says nothing of a token endpoint.
func TestATidyTokenRequestPassesUnderATableThatNamesNoHost(t *testing.T) {
	anyHost := own()
	anyHost.Hosts = nil
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			for how, ctx := range map[string]context.Context{"under a parent": onceward.WithParent(t.Context(), "parent-1"), "unnamed": t.Context(), "by name": named(t, "order-1")} {
				l := &line{}
				p := start(t, l, onceward.Config{Providers: []providers.Provider{anyHost}})
				require.NoError(t, p.ask(ctx, e.options("https://login.example/token")...).err)
				journaled := 1
				if e.tidy && how != "by name" {
					journaled = 0
				}
				assert.Len(t, p.everything(), journaled, how)
			}
		})
	}
}

// What only looks like a secret would not be sent again after a crash.
func TestAnOrdinaryBodyIsKept(t *testing.T) {
	for _, e := range []exchange{
		{"a charge", form, chargeForm, false},
		{"a charge of a token", form, chargeForm + "&token=tok_visa", false},
		{"a charge of a token in JSON", "application/json", `{"amount":100,"token":"tok_visa","client_id":7}`, false},
		{"a client's secret, without the client", form, "amount=100&client_secret=pi_1_secret_2", false},
		{"an action", form, "Action=RunInstances&Version=2016-11-15", false},
		{"a request", "application/json", `{"request":{"amount":100},"response_type":"full"}`, false},
		{"a text", "text/plain", "grant_type", false},
	} {
		t.Run(e.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
			out := p.ask(named(t, "order-1"), e.options(ownURL)...)
			require.NoError(t, out.err)
			op := p.recorded(onceward.Ref{ID: "order-1"})
			assert.Equal(t, e.body, string(op.Request.Body))
			assert.False(t, op.BodyWithheld)
			assert.Equal(t, paid, string(op.Answer.Body))
		})
	}
}

// What passes since it is a request for a token is a secret wherever it does not pass,
// and says nothing else to anybody.
func FuzzATidyTokenRequestIsNothingElse(f *testing.F) {
	for _, e := range exchanges {
		f.Add(e.contentType, e.body)
	}
	f.Add(form, "grant_type=a&GRANT_TYPE=b")
	f.Add("application/json", `{"grant_type":"a","scope":["b"],"\u0067rant_type":"c"}`)
	f.Fuzz(func(t *testing.T, contentType, body string) {
		m := providers.Message{Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body)}
		secret, tidy := onceward.ExchangesSecrets(m), onceward.IsTidyTokenRequest(http.MethodPost, m)
		if !tidy {
			return
		}
		require.True(t, secret)
		if strings.HasPrefix(contentType, form) {
			values, err := url.ParseQuery(body)
			require.NoError(t, err)
			require.False(t, values.Has("amount"))
		}
		var members map[string]any
		if json.Unmarshal([]byte(body), &members) == nil {
			require.NotContains(t, members, "amount")
		}
	})
}
