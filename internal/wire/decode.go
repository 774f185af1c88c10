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

// Legible returns an answer in the form that the provider's table reads. Legible decodes the body if the answer's
// meaning depends on the body. A caller that asked for a coding gets the encoded body, which net/http does not decode.
// body is the whole body, or the beginning of a body that is too large. ok reports whether the table can see every
// field that it names.
func Legible(answer tables.Answer, body []byte, route tables.Route) (read tables.Answer, ok bool) {
	answer.Body = body
	fields := route.NeedsBody(answer)
	switch coded := len(answer.Header.Values("Content-Encoding")) > 0; {
	case !coded:
		return answer, !fields || len(body) <= tables.MaxAnswerBody
	case fields:
		if read, ok = Plain(answer, body); ok {
			return read, true
		}
	}
	return Begun(answer, body, true, route), !fields
}

// Plain returns an answer with its decoded body. ok is false if the body can't be read, or is too large.
func Plain(answer tables.Answer, body []byte) (read tables.Answer, ok bool) {
	answer.Body = body
	codings := answer.Header.Values("Content-Encoding")
	if len(codings) == 0 || len(body) > tables.MaxAnswerBody {
		return answer, len(body) <= tables.MaxAnswerBody
	}
	plain, err := decoded(body, codings)
	if err != nil {
		return answer, false
	}
	answer.Body, answer.Header = plain, plainHeader(answer.Header)
	return answer, true
}

// Begun returns an answer with only the decoded beginning of the body, if the table recognises answers by the
// beginning. Of a body that is not whole, white space says nothing.
func Begun(answer tables.Answer, body []byte, whole bool, route tables.Route) tables.Answer {
	answer.Body = nil
	if !route.NeedsBeginning(answer) {
		return answer
	}
	codings := answer.Header.Values("Content-Encoding")
	if len(codings) > 0 && len(body) > 0 {
		var err error
		body, err = decoded(body, codings)
		whole = whole && err == nil
	}
	if body = bytes.TrimLeft(body, " \t\r\n"); whole || len(body) > 0 {
		answer.Beginning, answer.Header = append([]byte{}, body[:min(len(body), maxBeginning)]...), plainHeader(answer.Header)
	}
	return answer
}

// maxBeginning is a beginning's length, in bytes.
const maxBeginning = 4 << 10

// plainHeader returns the header of an answer whose body is decoded.
func plainHeader(h http.Header) http.Header {
	h = h.Clone()
	h.Del("Content-Encoding")
	return h
}

// EndsWithin reports whether a body ends within JSON or within a coding. A body ends so only if the connection's end,
// or a wrong length, cut the body.
func EndsWithin(h http.Header, body []byte) bool {
	codings := h.Values("Content-Encoding")
	if len(codings) > 0 && len(body) > 0 {
		plain, err := decoded(body, codings)
		switch {
		case errors.Is(err, errBroken):
			return true
		case err != nil:
			return false
		}
		body = plain
	}
	if !tables.SaysJSON(h) {
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

var (
	errUnknownCoding = errors.New("a coding that is not known, or too many")
	errBroken        = errors.New("the body ends within its coding, or has another one")
	errTooLong       = errors.New("the decoded body is above the limit")
)

// decoded removes a body's codings, the last first. With an error, decoded returns the readable beginning of the
// decoded body.
func decoded(body []byte, codings []string) ([]byte, error) {
	names := strings.Split(strings.ToLower(strings.Join(codings, ",")), ",")
	if len(names) > maxCodings {
		return nil, errUnknownCoding
	}
	var failed error
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
			return nil, errUnknownCoding
		}
		if err != nil {
			return nil, errBroken
		}
		plain, err := ReadUpTo(r, tables.MaxAnswerBody, int64(len(body)))
		switch {
		case len(plain) > tables.MaxAnswerBody:
			failed = errTooLong
		case err != nil && failed == nil:
			failed = errBroken
		}
		body = plain
	}
	return body, failed
}
