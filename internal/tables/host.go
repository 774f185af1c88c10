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
