package call

import (
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// refer finds the request's reference, or decides to fill in one. The journal records the reference before anything is
// sent. So a look-up searches for the value in the request, even if the table has changed.
func (k *Call) refer(m tables.Message) {
	if !k.client.Finder.LooksFor(k.route) {
		return
	}
	in, ref := &k.intent, k.route.Endpoint.Reference
	in.Compare = reconcile.ComparedOf(k.route, k.req.Method, k.req.URL, m)
	in.Row = k.route.Row()
	if ref.Place == providers.KeyNone {
		return
	}
	at := tables.Reference(ref)
	value, present, err := at.Carried(m)
	form := tables.Key{Place: ref.Place, Name: ref.Name}.Form()
	switch {
	case err != nil:
	case present:
		in.Reference, in.ReferenceName = value, form
	case (ref.Fill || k.factory.settings.FillsMissing) && !ref.Visible && !secret.Signed(m.Header, m.Query):
		sample := naming.NewKey()
		for _, like := range []string{sample, naming.SpelledLike("", sample)} {
			trial := m
			trial.Header = m.Header.Clone()
			if at.Set(&trial, like) == nil {
				in.ReferenceName, in.ReferenceOurs = form, true
				in.NextReference = func(key string, generation int) string {
					return naming.SpelledLike(like, naming.NewReference(k.client.Secret, k.ref, in.Naming, key, generation))
				}
				break
			}
		}
	}
}
