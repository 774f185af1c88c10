package wire

import (
	"errors"
	"net/http"
	"strings"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// referenceAt returns a recorded reference's place, from the text returned by [tables.Key.Form].
func referenceAt(form string) (at tables.Reference, ok bool) {
	for place := providers.KeyRawHeader; place <= providers.KeyGraphQL; place++ {
		if name, is := strings.CutPrefix(form, place.String()+" "); is {
			return tables.Reference{Place: place, Name: name}, true
		}
	}
	return at, false
}

var errReferencePlace = errors.New("its reference was recorded in a place that this release does not know")

// Reference is the reference that a Composer puts into requests besides the key.
type Reference struct{ form, value string }

// ReferenceOf returns the reference that the client made for the operation. It returns the zero Reference if the caller
// set one, or there is none.
func ReferenceOf(op *journal.Operation) Reference {
	if !op.ReferenceOurs {
		return Reference{}
	}
	return Reference{op.ReferenceName, op.Reference}
}

// put puts the reference into the request, and returns the request's new body.
func (r Reference) put(req *http.Request, body []byte) ([]byte, error) {
	if r.value == "" {
		return body, nil
	}
	at, ok := referenceAt(r.form)
	if !ok {
		return nil, errReferencePlace
	}
	m := tables.Message{Header: req.Header, Query: req.URL.RawQuery, Body: body}
	if err := at.Set(&m, r.value); err != nil {
		return nil, err
	}
	req.URL.RawQuery = m.Query
	return m.Body, nil
}
