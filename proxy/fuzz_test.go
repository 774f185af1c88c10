package proxy

import (
	"bufio"
	"context"
	"net/http"
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
