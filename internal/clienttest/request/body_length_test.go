package request_test

import (
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

// An answer with a wrong length is requested again.
func TestAnswerLiesAboutItsLength(t *testing.T) {
	for name, first := range map[string]string{
		"a chunk of no length":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"a chunk longer than it is":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}\r\n0\r\n\r\n",
		"a chunk shorter than it is": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
		"a chunk of endless length":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("f", 40) + "\r\n{}",
		"two lengths":                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"a length below zero":        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
		"a length beyond the body":   "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) {
			srv := newRawServer(t, func(s *rawServer, conn net.Conn, _ int) bool {
				if len(s.requests()) > 1 {
					return writes(conn, rawAnswer)
				}
				writes(conn, first)
				return false
			})
			p := start(t, transportOf(t), onceward.Config{Providers: anywhere(), Backoff: quick})
			out := p.Ask(named(t, "order-1"), to("POST", srv.url()), body("x"))
			require.NoError(t, out.Err)
			assert.Equal(t, "{}", out.Body)
			assert.Equal(t, 2, out.Op.Attempts)
		})
	}
}

// A request's body is read whole, whatever its pieces. A body that never yields a byte is refused.
func TestBodyThatComesInPieces(t *testing.T) {
	for _, row := range []struct {
		name  string
		text  string
		comes func(io.Reader) io.Reader
		err   error
	}{
		{"byte by byte", strings.Repeat("x", 300), iotest.OneByteReader, nil},
		{"longer than is set aside at once", strings.Repeat("x", 600<<10), func(r io.Reader) io.Reader { return r }, nil},
		{"with its end", "x", iotest.DataErrReader, nil},
		{"not at all", "x", func(io.Reader) io.Reader { return idle{} }, io.ErrNoProgress},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{MaxRequestBody: math.MaxInt64})
			err := p.Ask(named(t, invoice), func(r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(row.comes(strings.NewReader(row.text))), int64(len(row.text))
			}).Err
			if row.err != nil {
				require.ErrorIs(t, err, row.err)
				require.ErrorIs(t, err, onceward.ErrInvalidRequest)
				assert.Empty(t, l.Sent())
				return
			}
			require.NoError(t, err)
			require.Len(t, l.Sent(), 1)
			assert.Equal(t, row.text, l.Sent()[0].Body)
		})
	}
}

// idle is a body that never yields a byte, and does not end.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }
