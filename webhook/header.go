package webhook

import "net/http"

// maxHeader bounds how many signatures one request can make a verifier check. It
// is ten times what the longest scheme sends.
const maxHeader = 8 << 10

// header returns the value of a header that has to be there once: of two, a proxy
// or a parser behind this one may take the other.
func header(h http.Header, name string) (string, error) {
	values := h.Values(name)
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", malformed(name + " is missing")
	case len(values) > 1:
		return "", malformed(name + " is repeated")
	case len(values[0]) > maxHeader:
		return "", malformed(name + " is too long")
	}
	return values[0], nil
}
