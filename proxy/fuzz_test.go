package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// FuzzStrippedHeaders gives the proxy a request as it comes over the wire, with any header. No header goes on that a server
// may take for one of the proxy's, and every other header does.
func FuzzStrippedHeaders(f *testing.F) {
	for _, header := range []string{"Onceward-Operation", "onceward_scope", "ONCEWARD-", "Onceward", "X-Onceward-Operation", "Oncewarded", "Accept-Encoding", "Stripe-Account", "Authorization"} {
		f.Add(header, "value")
	}
	p := &proxy{upstream: Upstream{URL: &url.URL{Scheme: "https", Host: "api.stripe.com"}, CredentialHeader: "Authorization"}}
	f.Fuzz(func(t *testing.T, name, value string) {
		in, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST /v1/charges HTTP/1.1\r\nHost: localhost\r\n" + name + ": " + value + "\r\n\r\n")))
		if err != nil {
			return
		}
		in = in.WithContext(context.WithValue(t.Context(), askedKey{}, asked{credential: "a credential"}))
		r := &httputil.ProxyRequest{In: in, Out: in.Clone(in.Context())}
		p.rewrite(r)
		if in.Header.Del("Authorization"); r.Out.Header.Get("Authorization") != "a credential" {
			t.Errorf("it goes on with the credential %q", r.Out.Header["Authorization"])
		}
		for header := range in.Header {
			alike := strings.ReplaceAll(strings.ToLower(header), "_", "-")
			ours := strings.HasPrefix(alike, "onceward-") || alike == "accept-encoding"
			if _, goesOn := r.Out.Header[header]; goesOn == ours {
				t.Errorf("%q goes on: %v", header, goesOn)
			}
		}
		if r.Out.URL.Host != "api.stripe.com" || r.Out.Host != "" {
			t.Errorf("it goes to %q, %q", r.Out.URL.Host, r.Out.Host)
		}
	})
}

// FuzzCallers gives the proxy any request as it comes over the wire. A request without exactly one proven credential is
// neither sent nor given a token, and one that is sent has the credential that it proves.
func FuzzCallers(f *testing.F) {
	const credential = "Basic Y2xpZW50OnNlY3JldA=="
	token := "Bearer " + tokenOf([]byte(credential))
	for _, header := range []string{
		"Authorization: " + credential, "authorization: " + token, "Authorization: " + credential + "\r\nAuthorization: " + token, "Authorization: Bearer A21AA",
		"Authorization: " + credential + "\r\nConnection: Authorization", "Proxy-Authorization: " + credential, "Authorization:\r\n " + credential,
	} {
		f.Add("POST", "/v2/checkout/orders", header+"\r\nOnceward-Operation: a", `{"intent":"CAPTURE"}`)
		f.Add("POST", "/v1/oauth2/token", header, "grant_type=client_credentials")
		f.Add("GET", "http://evil.example.com/v2/checkout/orders/1?a=b", header, "")
	}
	var sent *http.Request
	p := &proxy{upstream: Upstream{
		URL: &url.URL{Scheme: "https", Host: "api-m.paypal.com"}, CredentialHeader: "Authorization", TokenPath: "/v1/oauth2/token", Hosts: []string{"localhost"},
		Flavour: form(paypal), MaxRequest: 1 << 20,
	}, callers: []caller{{digest([]byte(credential)), credential}, {digest([]byte(token)), credential}}}
	p.forward = &httputil.ReverseProxy{Rewrite: p.rewrite, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{StatusCode: http.StatusTeapot, Header: http.Header{}, Body: http.NoBody}, nil
	})}
	f.Fuzz(func(t *testing.T, method, target, headers, body string) {
		in, err := http.ReadRequest(bufio.NewReader(strings.NewReader(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n\r\n%s", method, target, len(body), headers, body))))
		if err != nil {
			return
		}
		given := in.Header["Authorization"]
		proven := len(given) == 1 && (given[0] == credential || given[0] == token)
		w := httptest.NewRecorder()
		sent = nil
		p.ServeHTTP(w, in)
		if !proven && (sent != nil || w.Code != http.StatusForbidden) {
			t.Errorf("%q is a caller: %d", given, w.Code)
		}
		if sent != nil && (sent.URL.Host != "api-m.paypal.com" || len(sent.Header["Authorization"]) != 1 || sent.Header["Authorization"][0] != credential) {
			t.Errorf("it goes to %s with %q", sent.URL, sent.Header["Authorization"])
		}
		if sent == nil && w.Code < 400 && (in.Method != http.MethodPost || in.URL.Path != "/v1/oauth2/token") {
			t.Errorf("%s %s has the answer %d", in.Method, in.URL, w.Code)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
