package webhook

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// maxHeader bounds how many signatures one request can make a verifier check. It
// is ten times what the longest scheme sends.
const maxHeader = 8 << 10

// header returns the value of a header that has to be there once. If there were two, a proxy or a parser behind this
// one might take the other.
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

func base64Header(h http.Header, name string) ([]byte, error) {
	return decodedHeader(h, name, "", "base64", base64.StdEncoding.DecodeString)
}

func hexHeader(h http.Header, name string) ([]byte, error) {
	return decodedHeader(h, name, "", "hexadecimal", hex.DecodeString)
}

// decodedHeader returns the signature in a header, which may have a prefix.
func decodedHeader(h http.Header, name, prefix, encoding string, decode func(string) ([]byte, error)) ([]byte, error) {
	text, err := header(h, name)
	if err != nil {
		return nil, err
	}
	signature, err := decode(strings.TrimPrefix(text, prefix))
	if err != nil {
		return nil, malformed(name + " is not " + encoding)
	}
	return signature, nil
}

// eitherHeader reads a signature whose encoding is not published. The two forms of a SHA-256 differ in length, so only
// one form can be meant.
func eitherHeader(h http.Header, name string) ([]byte, error) {
	if len(h.Get(name)) == hex.EncodedLen(32) {
		return hexHeader(h, name)
	}
	return base64Header(h, name)
}
