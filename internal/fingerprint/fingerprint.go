// Package fingerprint tells a retry from a misuse: two requests with one fingerprint are the same request, and of two
// fingerprints that differ it says in which part. A fingerprint is stored in the journal, so what a version gives to a
// request never changes. All functions are safe for concurrent use.
package fingerprint

import (
	"cmp"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// Input is what a fingerprint is made of. Nothing of it is changed or kept.
type Input struct {
	// Method is compared in its case, as RFC 9110 section 9.1 has it; "" is GET, as for net/http.
	Method string
	// URL is compared as it goes over the wire, encoding included, but for the case of its scheme and host, a port
	// that is the scheme's default, and the order of query parameters: only that of parameters of one name, or of one
	// list (items[][id]), counts. Userinfo and fragment are ignored. A nil URL is an empty one.
	URL *url.URL
	// Account holds the header fields that say on whose behalf the request is made, and no others.
	Account http.Header
	// ContentType says how Body is compared: JSON, a form or multipart/form-data by what it means, anything else by
	// its bytes. What can't be read, or not without loss, is compared by its bytes too. It is not itself compared.
	ContentType string
	// ContentEncoding is the coding of Body; with any but "" and identity, Body is compared by its bytes.
	ContentEncoding string
	// Body is the whole body. An empty one is the same whatever its type and coding.
	Body []byte
	// OmitQuery reports which query parameters are left out, by their unescaped names; nil leaves out none.
	OmitQuery func(name string) bool
	// OmitFields names what is left out of Body, so that a request with it and one without it are the same: in JSON
	// the member at a path of names with dots between ("meta.sent_at"; members of arrays have no path), in a form the
	// fields of that name.
	OmitFields []string
}

// Of returns the fingerprint of in: a version, "v1", and the SHA-256 of each part in unpadded base64url, with spaces
// between; 178 bytes.
func Of(in Input) string {
	d := digesters.Get().(*digester)
	defer d.release()
	out := make([]byte, 0, len(version)+len(parts)*(1+digestLength))
	out = append(out, version...)
	for _, part := range parts {
		d.start(part)
		switch part { // rather than through a table of functions, which in would escape to
		case "method":
			writeMethod(d, &in)
		case "URL":
			writeURL(d, &in)
		case "account":
			writeAccount(d, &in)
		case "body":
			writeBody(d, &in)
		}
		out = append(out, ' ')
		out = d.appendSum(out)
	}
	return string(out)
}

const version = "v1"

// parts are in the order in which they stand in a fingerprint and in which Diff names them.
var parts = [...]string{"method", "URL", "account", "body"}

func writeMethod(d *digester, in *Input) {
	d.string(cmp.Or(in.Method, http.MethodGet))
}

func writeURL(d *digester, in *Input) {
	u := in.URL
	if u == nil {
		u = &url.URL{}
	}
	scheme := strings.ToLower(u.Scheme)
	d.string(scheme)
	d.string(withoutDefaultPort(scheme, strings.ToLower(u.Host)))
	d.string(u.Opaque)
	d.string(cmp.Or(u.EscapedPath(), "/"))
	if u.RawQuery == "" {
		return
	}
	for _, p := range inOrder(split(u.RawQuery, in.OmitQuery)) {
		d.string(p.raw)
	}
}

func withoutDefaultPort(scheme, host string) string {
	switch {
	case scheme == "https":
		return strings.TrimSuffix(host, ":443")
	case scheme == "http":
		return strings.TrimSuffix(host, ":80")
	}
	return host
}

func writeAccount(d *digester, in *Input) {
	names := make([]string, 0, len(in.Account))
	for name := range in.Account {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(strings.Compare(http.CanonicalHeaderKey(a), http.CanonicalHeaderKey(b)), strings.Compare(a, b))
	})
	for _, name := range names {
		for _, value := range in.Account[name] {
			d.string(http.CanonicalHeaderKey(name))
			d.string(textproto.TrimString(value))
		}
	}
}
