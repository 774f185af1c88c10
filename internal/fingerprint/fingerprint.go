// Package fingerprint tells a retry from a misuse. Two requests with the same fingerprint are the same request. Of two
// different fingerprints, the package names the differing parts. A fingerprint is stored in the journal, so a version's
// fingerprint of a request never changes. All functions are safe for concurrent use.
package fingerprint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// Input holds the request parts that make the fingerprint. None of it is changed or kept.
type Input struct {
	// Method is compared with its case (RFC 9110 section 9.1); "" is GET, as for net/http.
	Method string
	// URL is compared as it goes over the wire, encoding included. The scheme's and host's case, the scheme's default
	// port, and the query parameters' order do not count. The order among parameters with one name, or in one list
	// (items[][id]), does. Userinfo and fragment are ignored. A nil URL is an empty one.
	URL *url.URL
	// Account holds the header fields that say on whose behalf the request is made, and no others.
	Account http.Header
	// ContentType says how Body is compared: JSON, a form or multipart/form-data by meaning, any other multipart type
	// by parts, any other type by bytes. A body that cannot be read, or only with loss, is also compared by bytes.
	// ContentType is not itself compared.
	ContentType string
	// ContentEncoding is Body's coding; with any but "" and identity, Body is compared by its bytes.
	ContentEncoding string
	// Body is the whole body. An empty one is the same whatever its type and coding.
	Body []byte
	// OmitQuery reports which query parameters are left out, by their unescaped names; nil leaves out none.
	OmitQuery func(name string) bool
	// Counted is an encoded query with withheld parameters that belong to the request all the same. Their values tell
	// two requests apart, as their URL does, and no two fingerprints for them are alike.
	Counted string
	// Secret says that the body is a secret. With a Key it tells two requests apart.
	Secret bool
	// Key, if it is not empty, is a secret kept elsewhere under which the fingerprint of a secret body is made and
	// compared. Without it the fingerprint leaves the body out, since a guesser could find a card's number by trying
	// all numbers.
	Key []byte
	// OmitFields names the fields that are left out of Body. A request with such a field then equals a request without
	// the field. In JSON it is the member at a path of names with dots between ("meta.sent_at"). Members of arrays have
	// no path. In a form, a path names each field with the name.
	OmitFields []string
	// FoldNames says that the body's reader may not distinguish JSON names by case. encoding/json takes the latest of
	// such members. A body with such names in one object is then compared by its bytes.
	FoldNames bool
}

// Print is a request's meaning, which fingerprints are made of and compared with. It holds digests alone, and never
// changes.
type Print struct {
	digests [len(parts)][sha256.Size]byte
	counted *[sha256.Size]byte // of what is withheld and counts; nil: nothing does
	secret  bool
	key     []byte
}

// New returns the print of in. It takes time in proportion to the input's size. The error is the cause of ctx's end, if
// that comes first.
func New(ctx context.Context, in Input) (Print, error) {
	d := digesters.Get().(*digester)
	defer d.release()
	d.watch.ctx = ctx
	p := Print{secret: in.Secret, key: in.Key}
	for i, part := range parts {
		d.start(part)
		switch part { // rather than through a function table, which in would escape to
		case "method":
			writeMethod(d, &in)
		case "URL":
			writeURL(d, &in)
		case "account":
			writeAccount(d, &in)
		case "body":
			writeBody(d, &in)
		}
		d.sum(&p.digests[i])
	}
	if in.Counted != "" {
		d.start("withheld")
		writeQuery(d, in.Counted, nil)
		p.counted = new([sha256.Size]byte)
		d.sum(p.counted)
	}
	if d.watch.over {
		return Print{}, context.Cause(ctx)
	}
	return p, nil
}

// WithAccount returns the print of the same request on another's behalf: see Input.Account.
func (p Print) WithAccount(account http.Header) Print {
	d := digesters.Get().(*digester)
	defer d.release()
	at := slices.Index(parts[:], "account")
	d.start(parts[at])
	writeAccount(d, &Input{Account: account})
	d.sum(&p.digests[at])
	return p
}

// WithKey returns the print of the same request under another key: see Input.Key.
func (p Print) WithKey(key []byte) Print {
	p.key = key
	return p
}

// Of returns a fingerprint of in, however long it takes: see [Print.Fingerprint].
func Of(in Input) string {
	p, _ := New(context.Background(), in) // which never ends
	return p.Fingerprint()
}

// parts are a fingerprint's parts, in the fingerprint's and Diff's order.
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
	writeQuery(d, u.RawQuery, in.OmitQuery)
}

func writeQuery(d *digester, query string, omit func(name string) bool) {
	if query == "" {
		return
	}
	for _, p := range inOrder(split(query, omit, &d.watch)) {
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
