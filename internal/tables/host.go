package tables

import (
	"net/url"
	"strings"
)

// hostOf returns the URL's host as it is looked up: in lower case, without the
// scheme's default port and without the dot of a fully qualified name.
func hostOf(u *url.URL) string {
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	switch port := u.Port(); {
	case port == "",
		strings.EqualFold(u.Scheme, "https") && port == "443",
		strings.EqualFold(u.Scheme, "http") && port == "80":
		return name
	default:
		return name + ":" + port
	}
}

// plain reports whether a path has one reading only. Segments that a server may
// resolve or split after decoding (%2e%2e, %2F, a backslash, "..;") don't.
func plain(escapedPath string) bool {
	for segment := range strings.SplitSeq(escapedPath, "/") {
		text, err := url.PathUnescape(segment)
		if err != nil || strings.ContainsAny(text, "/\\\x00") {
			return false
		}
		if name, _, _ := strings.Cut(text, ";"); name == "." || name == ".." {
			return false
		}
	}
	return true
}
