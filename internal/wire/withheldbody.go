package wire

import (
	"net/http"
	"strings"

	"github.com/onceward/onceward/journal"
)

// WithBody returns a frozen request whose body was withheld, now with the body of a caller. Both mean the same: their
// fingerprints are equal. The headers that describe the body's bytes are the caller's.
func WithBody(frozen, asked journal.Request, body []byte) journal.Request {
	header := make(http.Header, len(frozen.Header))
	for name, values := range frozen.Header {
		if !describesBody(name) {
			header[name] = values
		}
	}
	for name, values := range asked.Header {
		if describesBody(name) {
			header[name] = values
		}
	}
	frozen.Header, frozen.Body = header, body
	return frozen
}

func describesBody(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "content-") || strings.HasSuffix(name, "digest")
}
