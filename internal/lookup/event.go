package lookup

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/template"
	"github.com/onceward/onceward/providers"
)

// Heard holds the facts in an event, by the rule that reads the event.
type Heard struct {
	// Rule is the rule.
	Rule *providers.EventRule

	// ID identifies the event: the event's own id, or else the content's digest, the same for each delivery.
	ID string

	// Key, Reference and Object identify the operation. Each is "" if the event does not have it.
	Key, Reference, Object string

	// Account is the account in which it happened, or "" if the event does not say.
	Account string

	// Live says whether the event happened in earnest, and Told whether the event says so.
	Live, Told bool

	// At is the event's time, and Created the object's creation. A time that the event lacks is zero.
	At, Created time.Time

	texts tables.Texts
}

// ReadEvents returns the events in a body that a rule reads: for each endpoint the first matching rule. A body that is
// not JSON has no events. A body with an event list is no event itself, since a scheme may sign the items alone. The
// caller must have checked by the signature that the body is the provider's.
//
// problem says why a body cannot be read for its events though a rule may read the body. It is "" otherwise.
func ReadEvents(p *providers.Provider, header http.Header, body []byte) (heard []Heard, problem string) {
	var lists []string
	for i := range p.Events {
		if !slices.Contains(lists, p.Events[i].Items) {
			lists = append(lists, p.Events[i].Items)
		}
	}
	slices.SortFunc(lists, func(a, b string) int { return cmp.Compare(b, a) }) // "", the body itself, comes last
	for _, list := range lists {
		var events [][]byte
		if events, problem = tables.Items(header, body, list); problem == tables.NoList+list {
			continue
		}
		fields := eventFields(p, list)
		for _, event := range events {
			heard = append(heard, readEvent(p, list, fields.Read(event))...)
		}
		break
	}
	return heard, problem
}

func eventFields(p *providers.Provider, list string) *tables.Fields {
	var paths []string
	for i := range p.Events {
		rule := &p.Events[i]
		if rule.Items != list {
			continue
		}
		paths = append(paths, rule.Field, rule.Key, rule.Reference, rule.ID, rule.Object, rule.Created, rule.At, rule.Account, rule.Live)
		for _, same := range rule.Also {
			paths = append(paths, same.Field)
		}
	}
	return tables.NewFields(paths...)
}

func readEvent(p *providers.Provider, list string, texts tables.Texts) (heard []Heard) {
	for i := range p.Events {
		rule := &p.Events[i]
		if rule.Items != list || !slices.Contains(texts.All(rule.Field), rule.Equals) || !states(rule, texts) ||
			slices.ContainsFunc(heard, func(h Heard) bool { return h.Rule.Endpoint == rule.Endpoint }) {
			continue
		}
		only := func(path string) string {
			text, _ := texts.Only(path)
			return text
		}
		h := Heard{
			Rule: rule, texts: texts,
			ID: only(rule.ID), Key: only(rule.Key), Reference: only(rule.Reference), Object: only(rule.Object), Account: only(rule.Account),
		}
		at, created, live := only(rule.At), only(rule.Created), only(rule.Live)
		if len(h.Object) > MaxID {
			h.Object = ""
		}
		h.At, _ = TimeOf(at)
		h.Created, _ = TimeOf(created)
		h.Live, h.Told = live == "true", live == "true" || live == "false"
		if h.ID == "" {
			h.ID = digest(rule.Field, rule.Equals, rule.Is.String(), h.Key, h.Reference, h.Object, h.Account, at, created)
		}
		heard = append(heard, h)
	}
	return heard
}

// digest returns the digest of the texts and their boundaries.
func digest(texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		sum.Write([]byte(text))
		sum.Write([]byte{0})
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// literal reports whether a comparison is with a text of the table's own.
func literal(same providers.Same) bool {
	names, _ := template.Names(same.Is, template.Text)
	return len(names) == 0
}

// states reports whether the event says what the rule asks whatever the request.
func states(rule *providers.EventRule, texts tables.Texts) bool {
	return !slices.ContainsFunc(rule.Also, func(same providers.Same) bool { return literal(same) && !says(texts, same, same.Is) })
}

func says(texts tables.Texts, same providers.Same, want string) bool {
	return slices.ContainsFunc(texts.All(same.Field), func(is string) bool { return equal(same.As, is, want) })
}

// Of reports whether the event fits the operation, which was sent to the endpoint. It compares the key, the reference
// or the known object, times, and everything that the rule compares. A caller's own reference counts only together with
// the object's creation time and another equal value. exact reports whether a mark of this operation alone
// identifies the event. why says which comparison failed.
func (h *Heard) Of(e *providers.Endpoint, about *Subject) (fits, exact bool, why string) {
	if h.Rule.Endpoint != "" && h.Rule.Endpoint != e.Pattern {
		return false, false, "its rule is of requests to another endpoint"
	}
	byReference := false
	switch {
	case h.Key != "" && about.Key != "":
		if h.Key != about.Key {
			return false, false, "it has another key"
		}
		exact = true
	case h.Object != "" && h.Object == about.Object:
		exact = true
	case h.Reference != "" && h.Reference == about.Reference:
		byReference, exact = true, about.ReferenceOurs
	default:
		return false, false, "it has neither the operation's key nor its reference nor its object"
	}
	for _, same := range h.Rule.Also {
		if literal(same) {
			continue
		}
		want, err := template.Expand(same.Is, template.Text, about.value)
		if same.Optional && missing(err) {
			continue
		}
		if err != nil {
			return false, false, reason(err)
		}
		if !says(h.texts, same, want) {
			return false, false, "it differs from the request at " + same.Field
		}
	}
	since := about.since()
	switch {
	case !h.Created.IsZero() && h.Created.Before(since):
		return false, false, "its object was created before the operation was first sent"
	case !h.At.IsZero() && h.At.Before(since):
		return false, false, "it happened before the operation was first sent"
	case !byReference || exact:
	case h.Created.IsZero():
		return false, false, "it has the caller's reference, and does not say when its object was created"
	case !about.Last.IsZero() && h.Created.After(about.Last.Add(after)):
		return false, false, "its object was created long after the operation's last attempt"
	case !compares(h.Rule.Also, about):
		return false, false, "it has the caller's reference, and its rule compares nothing else"
	}
	return true, exact, ""
}
