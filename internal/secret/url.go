package secret

import (
	"net/url"
	"slices"
	"strings"
)

// URL returns the scheme, host and path of u, which is all of a URL that errors and logs may print: no query, which
// may hold credentials or personal data, no userinfo and no fragment. A nil u gives "".
func URL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// SplitQuery parts a raw query into the parameters that may be written and those that are withheld, each in their order
// and encoding byte for byte, and returns the names of the latter, unescaped, sorted and each once. A parameter whose
// name can't be unescaped is withheld, since a lenient server may still read a credential in it. One that holds a
// semicolon is withheld whole if any of its pieces would be, since some servers separate parameters there.
func SplitQuery(raw string) (open, withheld string, names []string) {
	if raw == "" {
		return "", "", nil
	}
	var kept, taken []string
	for parameter := range strings.SplitSeq(raw, "&") {
		found := withheldNames(parameter)
		if len(found) == 0 {
			kept = append(kept, parameter)
		} else {
			taken = append(taken, parameter)
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	return strings.Join(kept, "&"), strings.Join(taken, "&"), slices.Compact(names)
}

// Counted returns, of a query that SplitQuery withheld, what is part of the request nevertheless (see [Counts]): the
// parameters whose names say so, what stands beside a credential in one with semicolons, and what can't be read.
func Counted(withheld string) string {
	if withheld == "" {
		return ""
	}
	var counted []string
	for parameter := range strings.SplitSeq(withheld, "&") {
		for piece := range strings.SplitSeq(parameter, ";") {
			raw, _, _ := strings.Cut(piece, "=")
			if name, err := url.QueryUnescape(raw); piece != "" && (err != nil || Counts(name)) {
				counted = append(counted, piece)
			}
		}
	}
	return strings.Join(counted, "&")
}

func withheldNames(parameter string) (names []string) {
	for piece := range strings.SplitSeq(parameter, ";") {
		raw, _, _ := strings.Cut(piece, "=")
		name, err := url.QueryUnescape(raw)
		if err != nil {
			names = append(names, raw)
		} else if Query(name) {
			names = append(names, name)
		}
	}
	return names
}
