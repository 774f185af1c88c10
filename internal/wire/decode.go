package wire

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/onceward/onceward/internal/tables"
)

// Legible returns an answer in the form that the provider's table reads. It decodes the body if the answer's meaning
// depends on it. A caller that asks for a coding itself gets the encoded body, and net/http does not decode it. body
// is the whole body, or the beginning of one that is too large to be read. ok reports whether the table can see all
// that it looks for.
func Legible(answer tables.Answer, body []byte, route tables.Route) (read tables.Answer, ok bool) {
	answer.Body = body
	if !route.NeedsBody(answer) {
		return answer, true
	}
	return Plain(answer, body)
}

// Plain returns an answer with its decoded body. ok is false if the body can't be read, or is too large.
func Plain(answer tables.Answer, body []byte) (read tables.Answer, ok bool) {
	answer.Body = body
	codings := answer.Header.Values("Content-Encoding")
	if len(codings) == 0 || len(body) > tables.MaxAnswerBody {
		return answer, len(body) <= tables.MaxAnswerBody
	}
	plain, ok := decoded(body, codings)
	if !ok {
		return answer, false
	}
	answer.Body = plain
	answer.Header = answer.Header.Clone()
	answer.Header.Del("Content-Encoding")
	return answer, true
}

// EndsWithin reports whether a body ends within its JSON. That happens if only the connection's end, or a wrong
// length, has ended it.
func EndsWithin(h http.Header, body []byte) bool {
	if !tables.SaysJSON(h) || h.Get("Content-Encoding") != "" {
		return false
	}
	text := bytes.TrimLeft(body, " \t\r\n")
	if len(text) == 0 || text[0] != '{' && text[0] != '[' || tables.IsJSON(text) {
		return false
	}
	var first json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(&first), io.ErrUnexpectedEOF)
}

const maxCodings = 4

// decoded removes the codings of a body, the last first. It returns false for an unknown coding, for a body that does
// not match its coding, and for a decoded body above the limit.
func decoded(body []byte, codings []string) ([]byte, bool) {
	names := strings.Split(strings.ToLower(strings.Join(codings, ",")), ",")
	if len(names) > maxCodings {
		return nil, false
	}
	for i := len(names) - 1; i >= 0; i-- {
		var err error
		var r io.Reader
		switch strings.TrimSpace(names[i]) {
		case "", "identity":
			continue
		case "gzip", "x-gzip":
			r, err = gzip.NewReader(bytes.NewReader(body))
		case "deflate":
			if r, err = zlib.NewReader(bytes.NewReader(body)); err != nil {
				r, err = flate.NewReader(bytes.NewReader(body)), nil // as some servers take it
			}
		case "zstd":
			var d *zstd.Decoder
			if d, err = zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*tables.MaxAnswerBody)); err == nil {
				defer d.Close()
				r = d
			}
		default:
			return nil, false
		}
		if err != nil {
			return nil, false
		}
		plain, err := ReadUpTo(r, tables.MaxAnswerBody, int64(len(body)))
		if err != nil || len(plain) > tables.MaxAnswerBody {
			return nil, false
		}
		body = plain
	}
	return body, true
}
