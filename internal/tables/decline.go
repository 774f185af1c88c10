package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/onceward/onceward/providers"
)

// maxDeclined is the largest body of a decline, in bytes.
const maxDeclined = 64 << 10

// Declined reports whether an answer is a success of the provider's that says, by p.Declines, that nothing took
// effect. body is the answer's, decoded and whole. It returns false if the body is not known (nil). It works for a
// recorded answer as well as for a new one, p may be nil, and it is safe for concurrent use.
func Declined(p *providers.Provider, a Answer) bool {
	if p == nil || len(p.Declines) == 0 || !Recognises(p, a.Status, a.Header, a.Body) ||
		len(a.Body) > maxDeclined || len(lines(a.Header, "Content-Encoding")) > 0 {
		return false
	}
	for i := range p.Declines {
		if says(&p.Declines[i], a.Body) {
			return true
		}
	}
	return false
}

func says(d *providers.Decline, body []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	w := declineWalk{decoder: decoder, equals: d.Equals}
	said := w.value(strings.Split(strings.ReplaceAll(d.Field, "[]", ".[]"), "."))
	if w.err != nil {
		return false
	}
	_, err := decoder.Token()
	return said && errors.Is(err, io.EOF)
}

// declineWalk reads a JSON text once.
type declineWalk struct {
	decoder *json.Decoder
	equals  string
	err     error
}

// value consumes a value and reports whether all that the path leads to from there, and
// there is something, equals.
func (w *declineWalk) value(path []string) bool {
	token, err := w.decoder.Token()
	if err != nil {
		w.err = err
		return false
	}
	switch token {
	case json.Delim('{'):
		return w.object(path)
	case json.Delim('['):
		return w.array(path)
	}
	return len(path) == 0 && fmt.Sprint(token) == w.equals && token != nil
}

func (w *declineWalk) object(path []string) bool {
	found, said := 0, true
	for w.decoder.More() {
		name, err := w.decoder.Token()
		if err != nil {
			w.err = err
			return false
		}
		if len(path) > 0 && (path[0] == "*" || name == path[0]) {
			found++
			said = w.value(path[1:]) && said
		} else {
			w.skip()
		}
		if w.err != nil {
			return false
		}
	}
	_, w.err = w.decoder.Token()
	return said && found == 1 && w.err == nil
}

func (w *declineWalk) array(path []string) bool {
	found, said := 0, true
	for w.decoder.More() {
		found++
		if len(path) > 0 && path[0] == "[]" {
			said = w.value(path[1:]) && said
		} else {
			said = false
			w.skip()
		}
		if w.err != nil {
			return false
		}
	}
	_, w.err = w.decoder.Token()
	return said && found > 0 && w.err == nil
}

// skip consumes a value that the path does not lead to.
func (w *declineWalk) skip() {
	var raw json.RawMessage
	w.err = w.decoder.Decode(&raw)
}
