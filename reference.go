package onceward

import (
	"errors"
	"net/http"
	"strings"

	"github.com/onceward/onceward/internal/seam"
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
		sample := string(NewKey())
		for _, like := range []string{sample, spelledLike("", sample)} {
			trial := m
			trial.Header = m.Header.Clone()
			if at.Set(&trial, like) == nil {
				in.ReferenceName, in.ReferenceOurs = form, true
				in.NextReference = func(key string, generation int) string {
					return spelledLike(like, k.client.newReference(k.ref, in.Naming, Key(key), generation))
				}
				break
			}
		}
	}
}

// spelledLike spells a reference without hyphens if the given one has none: some fields take none.
func spelledLike(like, made string) string {
	if strings.Contains(like, "-") {
		return made
	}
	return strings.ReplaceAll(made, "-", "")
}

// newReference makes the reference of one generation of an operation. It comes back after the loss of the journal if the key
// may: the provider would refuse that key with another body. A key comes back under Config.Secret, and under a parent of the
// caller's own. Any other reference is random. None of them tells the key.
func (c *Client) newReference(ref Ref, naming journal.Naming, key Key, generation int) string {
	comesBack := c.cfg.Secret != nil || ref.Parent != "" && !seam.IsOfFlow(ref.Parent)
	if naming != journal.Named || !comesBack {
		return string(NewKey())
	}
	return string(key.reference(c.cfg.Secret, ref, generation))
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
