// Package keyheader reads a received request's Idempotency-Key header.
package keyheader

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Name is the header in draft-ietf-httpapi-idempotency-key-header.
const Name = "Idempotency-Key"

// Parse returns the header's value, or "" if there is none. malformed ends a sentence about the key that
// says what is wrong with it. It is empty for a key. The value is the key itself, or a structured field string (RFC 9651 section 3.3.3),
// whose parameters are ignored. Two header lines, and a comma or a semicolon outside of quotes, are malformed: a proxy may
// have joined two lines.
func Parse(h http.Header) (key, malformed string) {
	lines := h[Name]
	switch len(lines) {
	case 0:
		return "", ""
	case 1:
	default:
		return "", fmt.Sprintf("stands in %d header lines", len(lines))
	}
	value := strings.Trim(lines[0], " \t")
	if strings.HasPrefix(value, `"`) {
		item, _ := httpsfv.UnmarshalItem([]string{value})
		text, ok := item.Value.(string) // a malformed one has no value
		if !ok {
			return "", "begins with a quote and is not a structured field string (RFC 9651 section 3.3.3)"
		}
		return text, ""
	}
	if strings.ContainsAny(value, ",;") {
		return "", "holds a comma or a semicolon outside of quotes"
	}
	return value, ""
}
