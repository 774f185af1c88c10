package secret

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// URL returns the scheme, host and path of u. Errors and logs may print no more of a URL: a query may hold
// credentials or personal data, and userinfo and fragment are left out too. A nil u gives "".
func URL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// SplitQuery splits a raw query into the parameters that may be written and the withheld parameters. Each part keeps
// their order and encoding byte for byte. names holds the names of the withheld ones, unescaped, sorted and each once.
//
// A parameter whose name cannot be unescaped is withheld, since a lenient server may still read a credential in it. A
// parameter with a semicolon is withheld whole if any piece would be, since some servers separate parameters there. A
// parameter whose value is a URL with a credential is withheld too.
func SplitQuery(raw string) (open, withheld string, names []string) { return splitQuery(raw, true) }

// splitQuery looks for URLs in the values only if urls says so, and never in a URL that is itself a value.
func splitQuery(raw string, urls bool) (open, withheld string, names []string) {
	if raw == "" {
		return "", "", nil
	}
	var kept, taken []string
	for parameter := range strings.SplitSeq(raw, "&") {
		found := withheldNames(parameter, urls)
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

// Counted returns the parts of a withheld query (see SplitQuery) that belong to the request nevertheless (see
// [Counts]). They are the parameters whose names say so, the pieces beside a credential in a parameter with semicolons,
// and the pieces that cannot be read.
func Counted(withheld string) string {
	if withheld == "" {
		return ""
	}
	var counted []string
	for parameter := range strings.SplitSeq(withheld, "&") {
		for piece := range strings.SplitSeq(parameter, ";") {
			raw, _, _ := strings.Cut(piece, "=")
			name, err := url.QueryUnescape(raw)
			switch {
			case piece == "" || err == nil && !Counts(name):
			case err == nil && !Query(name):
				kept, _ := cutValue(piece) // of a URL what is no credential, which may be renewed
				counted = append(counted, kept)
			default:
				counted = append(counted, piece)
			}
		}
	}
	return strings.Join(counted, "&")
}

// CutURLs returns a header's value without the credentials in its URLs. It cuts userinfo and withheld parameters.
// CutURLs cuts the whole fragment if the header is made for URLs (Location, Content-Location, Referer, Link, Refresh),
// and in other headers a fragment with a withheld parameter. cut reports whether anything was cut.
func CutURLs(header, value string) (kept string, cut bool) { return cutIn(header, value, true) }

func cutIn(header, value string, urls bool) (kept string, cut bool) {
	if !strings.ContainsAny(value, "?#@") {
		return value, false
	}
	switch strings.ToLower(header) {
	case "location", "content-location", "referer":
		kept = cutURL(value, true, urls)
	case "link", "refresh":
		kept = urlInValue.ReplaceAllStringFunc(value, func(u string) string { return cutURL(u, true, urls) })
	default:
		kept = urlInValue.ReplaceAllStringFunc(value, func(u string) string { return cutURL(u, false, urls) })
	}
	return kept, kept != value
}

// urlInValue finds texts that may be a URL. One in angle brackets ends with them. One behind "url=", a scheme, or a
// slash at the beginning ends at the next white space, quote or bracket.
var urlInValue = regexp.MustCompile(`<[^>]*|(?i:\burl=)["']?[^\s"'<>]+|[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*|^/[^\s"'<>]*`)

func cutURL(u string, fragments, urls bool) string {
	u, fragment, found := strings.Cut(u, "#")
	before, query, asks := strings.Cut(u, "?")
	if scheme, rest, found := strings.Cut(before, "//"); found {
		end := strings.IndexAny(rest, "/\\")
		if end < 0 {
			end = len(rest)
		}
		if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
			before = scheme + "//" + rest[at+1:]
		}
	}
	open, _, names := splitQuery(query, urls)
	if open != "" || asks && len(names) == 0 {
		before += "?" + open
	}
	if _, _, names := splitQuery(fragment, urls); found && !fragments && len(names) == 0 {
		before += "#" + fragment
	}
	return before
}

func withheldNames(parameter string, urls bool) (names []string) {
	for piece := range strings.SplitSeq(parameter, ";") {
		raw, _, _ := strings.Cut(piece, "=")
		name, err := url.QueryUnescape(raw)
		if err != nil {
			names = append(names, raw)
		} else if Query(name) {
			names = append(names, name)
		} else if urls {
			if _, cut := cutValue(piece); cut {
				names = append(names, name)
			}
		}
	}
	return names
}

// cutValue returns a piece of a query without the credentials in a URL that is the piece's value.
func cutValue(piece string) (kept string, cut bool) {
	name, value, _ := strings.Cut(piece, "=")
	if !strings.Contains(value, "%") && !strings.ContainsAny(value, "?#@") {
		return piece, false
	}
	plain, err := url.QueryUnescape(value)
	if err != nil || !strings.ContainsAny(plain, "/?") {
		return piece, false
	}
	if plain, cut = cutIn("", plain, false); !cut {
		return piece, false
	}
	return name + "=" + url.QueryEscape(plain), true
}
