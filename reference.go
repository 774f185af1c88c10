package onceward

import (
	"errors"
	"net/http"
	"strings"

	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// refer finds the reference that the request has, or decides to fill one in. It is
// recorded before anything is sent: what is looked for later is what was in the request,
// whatever the table says by then.
func (k *call) refer(m tables.Message) {
	r := k.client.cfg.Reconcile
	if !k.client.looksFor(k.route) {
		return
	}
	in, ref := &k.intent, k.route.Endpoint.Reference
	in.Compare = comparedOf(k.route, k.req.Method, k.req.URL, m)
	if ref.Place == providers.KeyNone {
		return
	}
	at := tables.Reference(ref)
	value, present, err := at.Carried(m)
	form := formOf(providers.Key{Place: ref.Place, Name: ref.Name})
	switch {
	case err != nil:
	case present:
		in.Reference, in.ReferenceName = value, form
	case (ref.Fill || r.References == FillMissing) && !ref.Visible && !secret.Signed(m.Header, m.Query):
		sample := naming.NewKey()
		for _, like := range []string{sample, naming.SpelledLike("", sample)} {
			trial := m
			trial.Header = m.Header.Clone()
			if at.Set(&trial, like) == nil {
				in.ReferenceName, in.ReferenceOurs = form, true
				in.NextReference = func(key string, generation int) string {
					return naming.SpelledLike(like, naming.NewReference(k.client.cfg.Secret, k.ref, in.Naming, key, generation))
				}
				break
			}
		}
	}
}

// referenceAt is where a recorded reference stands, by what formOf said of it.
func referenceAt(form string) (at tables.Reference, ok bool) {
	for place := providers.KeyRawHeader; place <= providers.KeyGraphQL; place++ {
		if name, is := strings.CutPrefix(form, place.String()+" "); is {
			return tables.Reference{Place: place, Name: name}, true
		}
	}
	return at, false
}

var errReferencePlace = errors.New("its reference was recorded in a place that this release does not know")

// reference is what a composer puts into requests besides the key.
type reference struct{ form, value string }

// referenceOf is the one that was made for the operation; the zero reference if its caller
// has one, or it has none.
func referenceOf(op *journal.Operation) reference {
	if !op.ReferenceOurs {
		return reference{}
	}
	return reference{op.ReferenceName, op.Reference}
}

// put has the request carry the reference, and returns the body that it then has.
func (r reference) put(req *http.Request, body []byte) ([]byte, error) {
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
