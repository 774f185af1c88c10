package wire

import (
	"net/http"
	"strings"

	"github.com/onceward/onceward/journal"
)

// WithBody returns a frozen request whose body was withheld, with that of a caller, which
// means the same: the fingerprint says so. What describes its bytes comes with it.
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
