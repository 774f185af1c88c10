package request_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// exchange is a request with a credential in its body, and one in its answer.
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
	{"in JSON, nested", "application/json", `{"data":{"grant_type":"password","password":"` + canary + `"}}`, false},
	{"in JSON, nested and escaped", "application/json", `{"data":[1,{"grant\u005ftype" : "password","password":"` + canary + `"}]}`, false},
	{"in JSON, nested and cut short", "application/json", `{"data":{"grant_type":"password","password":"` + canary + `"`, false},
	{"in a list of JSON", "application/json", `[{"client_id":"a","client_secret":"` + canary + `"}]`, false},
	{"in a variable of GraphQL", "application/json", `{"query":"mutation($i: In!){token(input:$i){value}}","variables":{"i":{"clientId":"a","clientSecret":"` + canary + `"}}}`, false},
	{"in XML", "application/xml", `<r><grant_type>password</grant_type><password>` + canary + `</password></r>`, false},
	{"in XML, with a prefix", "text/xml", "\ufeff<?xml version='1.0'?>\n<o:r xmlns:o='a'><o:clientId>a</o:clientId><o:clientSecret>" + canary + `</o:clientSecret></o:r>`, false},
	{"in XML, as attributes", "application/xml", `<r grant_type="password" password="` + canary + `"/>`, false},
	{"in SOAP", "application/soap+xml", `<s:Envelope><s:Body><wst:RequestSecurityToken><wsse:Password>` + canary + `</wsse:Password></wst:RequestSecurityToken></s:Body></s:Envelope>`, false},
	{"in JSON that says it is a form", form, `{"grant_type":"password","password":"` + canary + `"}`, false},
	{"a code for a token, without a grant", "application/json", `{"client_id":"a","client_secret":"` + canary + `","code":"b"}`, false},
	{"a revocation", form, "token=" + canary + "&token_type_hint=refresh_token", false},
	{"a revocation by an authenticated client", form, "token=" + canary + "&client_id=a&client_secret=b", false},
	{"in parts", "multipart/form-data; boundary=b", inParts("grant_type", "password", "password", canary), false},
	{"in parts that say they are a form", form, inParts("grant_type", "password", "password", canary), false},
	{"in parts, cut short", "multipart/form-data; boundary=b", inParts("grant_type", "password", "password", canary)[:100], false},
	{"in JSON, escaped", "application/json", `{"grant\u005ftype":"password","password":"` + canary + `"}`, true},
	{"in JSON, in another case", "application/json", `{"ClientId":"a","ClientSecret":"` + canary + `"}`, false},
	{"in another case", form, "GRANT_TYPE=password&PASSWORD=" + canary, false},
	{"AWS's credentials", form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&WebIdentityToken=" + canary, false},
	{"a token request in JSON, with a list", "application/json", `{"grant_type":"password","resource":["a","b"],"password":"` + canary + `"}`, true},
	{"with a type that has a parameter without a value", form + "; a", "grant_type=password&password=" + canary, false},
	{"in camel case", form, "grantType=password&password=" + canary, false},
	{"in JSON, in a case of its own", "application/json", `{"data":{"gRANT_Type":"password","password":"` + canary + `"}}`, false},
	{"in JSON, malformed", "application/json", `{"a""grant_type":"password","password":"` + canary + `"}`, false},
	{"in JSON, below a name with a quote in it", "application/json", `{"data":{"a\"b":1,"grant_type":"password","password":"` + canary + `"}}`, false},
	{"in JSON, cut short within a string", "application/json", `{"data":{"grant_type":"password","password":"` + canary, false},
	{"in JSON that ends with the name", "application/json", `{"password":"` + canary + `" grant_type`, false},
	{"in parts, with a header that can't be read", "multipart/form-data; boundary=b", "--b\r\ngrant_type\r\n\r\n" + canary + "\r\n--b--\r\n", false},
	{"in a list of JSON, malformed", "application/json", `["a""grant_type":"password","password":"` + canary + `"]`, false},
	{"in parts, after a preamble", "multipart/form-data; boundary=b", "preamble\r\n" + inParts("grant_type", "password", "password", canary), false},
	{"in parts, the first of which has no name", "multipart/form-data; boundary=b", "--b\r\n\r\na\r\n" + inParts("grant_type", "password", "password", canary), false},
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

// A token request with a name or a parent is recorded without its secret.
func TestTokenRequestsTokenIsNotWritten(t *testing.T) {
	t.Parallel()
	called := func(ctx context.Context, n int) context.Context {
		return onceward.WithOperation(ctx, fmt.Sprint("order-", n))
	}
	for how, ask := range map[string]struct {
		url   string
		ctx   func(context.Context, int) context.Context
		named bool
	}{
		"named, anywhere": {"https://elsewhere.example/token", called, true},
		"named, listed":   {ownURL, called, true},
		"under a parent, anywhere": {"https://elsewhere.example/token", func(ctx context.Context, n int) context.Context {
			return onceward.WithParent(ctx, onceward.Key(fmt.Sprint("parent-", n)))
		}, false},
		"unnamed, listed": {ownURL, func(ctx context.Context, _ int) context.Context { return ctx }, false},
	} {
		t.Run(how, func(t *testing.T) {
			var heard confession
			dir, l := t.TempDir(), (&line{}).Always(says(200, gotToken))
			p := start(t, l, heard.listen(onceward.Config{
				Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{own()},
			}))
			recorded := 0
			for n, e := range exchanges {
				sent := len(l.Sent())
				out := p.Ask(ask.ctx(t.Context(), n), e.options(ask.url)...)
				require.NoError(t, out.Err, e.name)
				assert.Equal(t, gotToken, out.Body, e.name)
				require.Len(t, l.Sent(), sent+1, e.name)
				assert.Equal(t, e.body, l.Sent()[sent].Body, e.name)
				if how != "under a parent, anywhere" || !e.tidy { // else it passes
					recorded++
				}
				if ask.named {
					again := p.Ask(ask.ctx(t.Context(), n), e.options(ask.url)...)
					if ask.url == ownURL {
						require.NoError(t, again.Err, "its provider repeats the answer under its key")
						assert.Len(t, l.Sent(), sent+2, e.name)
						again = p.Ask(ask.ctx(t.Context(), n), e.options(ask.url)...)
						sent++
					}
					require.ErrorIs(t, again.Err, onceward.ErrAnswerGone, "it is not answered by the first token")
					assert.Len(t, l.Sent(), sent+1, e.name)
				}
			}
			requireNoCanary(t, "logs, Trace, Outcomes.Handle and errors", []byte(heard.String()))
			assert.Len(t, p.Everything(), recorded)
			require.NoError(t, p.Shutdown(context.Background()))
			requireNoCanaryOnDisk(t, dir, 1)
		})
	}
}

// A request with a name or key is recorded, whatever its body says. Otherwise a field added to a charge would make it
// pass unrecorded.
func TestTokenRequestThatIsNamedOrKeyed(t *testing.T) {
	t.Parallel()
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
				l := (&line{}).Then(loses())
				p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, Backoff: once})
				for range 3 {
					_ = p.Ask(ask.ctx(), append(e.options(ask.url), ask.options...)...)
				}
				require.Len(t, p.Everything(), 1, how)
				keys := map[string]bool{}
				for _, s := range l.Sent() {
					keys[s.Key] = true
				}
				assert.Len(t, keys, 1, "%s: every attempt is the same operation's", how)
				if strings.HasSuffix(how, "elsewhere") {
					assert.Len(t, l.Sent(), 1, "%s: nothing is known there, so that it is not sent again", how)
				}
			}
		})
	}
}

// A plain token request under a parent passes through, unless a contract says otherwise. An SDK's token in the middle
// of a step is no operation of that step.
func TestTokenRequestUnderAParentPasses(t *testing.T) {
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
			ctx := onceward.WithParent(t.Context(), "parent-1")
			require.NoError(t, p.Ask(ctx, e.options("https://elsewhere.example/token")...).Err)
			require.NoError(t, p.Ask(ctx, e.options("https://own.example/..%2Ftoken")...).Err)
			journaled := 2
			if e.tidy {
				journaled = 0
				assert.Equal(t, e.contentType, l.Sent()[0].Header.Get("Content-Type"))
				assert.Empty(t, l.Sent()[0].Key)
			}
			assert.Len(t, p.Everything(), journaled)
		})
	}
	l := &line{}
	p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
	tooLong := "grant_type=password&password=" + strings.Repeat("a", 256<<10)
	require.NoError(t, p.Ask(onceward.WithParent(t.Context(), "parent-1"), to(http.MethodPost, "https://elsewhere.example/token"), body(tooLong[:256<<10])).Err)
	assert.Empty(t, p.Everything(), "as long as any")
	for name, options := range map[string][]option{
		"longer than any":   {to(http.MethodPost, "https://elsewhere.example/token"), body(tooLong[:256<<10+1])},
		"a list":            {to(http.MethodPost, "https://elsewhere.example/token"), with("Content-Type", "application/json"), body(`["grant_type","a"]`)},
		"cut short":         {to(http.MethodPost, "https://elsewhere.example/token"), with("Content-Type", "application/json"), body(`{"grant_type":"a"`)},
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
			require.NoError(t, p.Ask(onceward.WithParent(t.Context(), "parent-1"), options...).Err)
			assert.Len(t, p.Everything(), 1)
		})
	}
}

// A plain token request passes under a table for any host. Such a table says nothing about a token endpoint.
func TestTokenRequestUnderATableOfNoHost(t *testing.T) {
	anyHost := own()
	anyHost.Hosts = nil
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			for how, ctx := range map[string]context.Context{"under a parent": onceward.WithParent(t.Context(), "parent-1"), "unnamed": t.Context(), "by name": named(t, "order-1")} {
				l := &line{}
				p := start(t, l, onceward.Config{Providers: []providers.Provider{anyHost}})
				require.NoError(t, p.Ask(ctx, e.options("https://login.example/token")...).Err)
				journaled := 1
				if e.tidy && how != "by name" {
					journaled = 0
				}
				assert.Len(t, p.Everything(), journaled, how)
			}
		})
	}
}

// ordinary are requests that only look like token requests.
var ordinary = []exchange{
	{"a charge", form, chargeForm, false},
	{"a charge of a token", form, chargeForm + "&token=tok_visa", false},
	{"a charge of a token in JSON", "application/json", `{"amount":100,"token":"tok_visa","client_id":7}`, false},
	{"an action", form, "Action=RunInstances&Version=2016-11-15", false},
	{"a request", "application/json", `{"request":{"amount":100},"response_type":"full"}`, false},
	{"a text in JSON", "application/json", `{"amount":100,"memo":{"text":"grant_type : client_secret","client_id":"a"}}`, false},
	{"a request for a client", "application/json", `{"request":{"amount":100,"client_id":"a"},"response_type":"full"}`, false},
	{"a list", "application/json", `[{"amount":100,"token":"tok_visa"}]`, false},
	{"a charge in XML", "application/xml", "<charge><token>tok_visa</token><memo>client_id, grant_type and client_secret: x</memo></charge>", false},
	{"a client's id in camel case", form, "amount=100&clientId=a", false},
	{"a version", form, "amount=100&Version=2011-06-15", false},
	{"an action without a version", form, "amount=100&Action=AssumeRole", false},
	{"a text that names a field", "application/json", `{"data":{"kind":"grant_type"}}`, false},
	{"a token alone", "application/json", `{"token":"tok_visa"}`, false},
	{"a text in parts", "multipart/form-data; boundary=b", inParts("memo", "grant_type"), false},
}

// A body that only looks like a secret is recorded. Otherwise it would not be sent again after a crash.
func TestOrdinaryBodyIsKept(t *testing.T) {
	for _, e := range ordinary {
		t.Run(e.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
			out := p.Ask(named(t, "order-1"), e.options(ownURL)...)
			require.NoError(t, out.Err)
			op := p.Recorded(onceward.Ref{ID: "order-1"})
			assert.Equal(t, e.body, string(op.Request.Body))
			assert.False(t, op.BodyWithheld)
			assert.Equal(t, paid, string(op.Answer.Body))
		})
	}
}
