package lookup

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/template"
	"github.com/onceward/onceward/internal/words"
	"github.com/onceward/onceward/providers"
)

// Kind is a look-up's result.
type Kind uint8

const (
	// Inconclusive: it says nothing; look again.
	Inconclusive Kind = iota

	// Found: one object, which is the operation's.
	Found

	// Nothing: the whole list was read, and no item is the operation's. By itself, Nothing does not prove that the object
	// is absent.
	Nothing

	// Ambiguous: two objects with the operation's mark, or one that contradicts the request: for a person.
	Ambiguous

	// Alike: no object has the operation's mark, and one agrees with its request: a candidate.
	Alike
)

var kindNames = [...]string{Inconclusive: "inconclusive", Found: "found", Nothing: "nothing", Ambiguous: "ambiguous", Alike: "alike"}

// String returns the kind in a word, "found" for Found.
func (k Kind) String() string { return words.Of("kind", kindNames[:], k) }

// Finding is a look-up's result for one operation.
type Finding struct {
	Kind Kind

	// Objects are the ids of the objects that may be the operation's: one, if Found; "" alone, if they show none.
	Objects []string

	// Outcome is what a Found object's state means. Before a Fetch, the state is the item's.
	Outcome providers.Outcome

	// Fresh says that the object has the create answer's shape and state. Body is then the operation's answer.
	// Otherwise the id alone settles the operation.
	Fresh bool

	// Exact says that the object shows the operation's key, or a reference from a client. Otherwise a Found object shows
	// the caller's reference, or is the object that the request names.
	Exact bool

	// Created is when the object was created, or zero if the object does not show it.
	Created time.Time

	// Body is the object as it was read, or nil if the endpoint's answers are secrets.
	Body []byte

	// Why says, unless Kind is Found, why the look-up settles nothing and which action would help.
	Why string
}

// Match says which item is the operation's object. The object shows a mark of the operation, the key or the
// reference. The one object that the request names needs no mark. taken reports whether an object id proves another
// operation already.
func (s *Sweep) Match(about Subject, taken func(id string) bool) Finding {
	if why := s.Why(); why != "" && !s.long {
		return Finding{Why: why}
	}
	if why := s.Serves(&about); why != "" {
		return Finding{Why: why}
	}
	if why := unfit(s.endpoint, s.look, &about); why != "" {
		return Finding{Why: why}
	}
	wants, why := s.wants(&about)
	if why != "" {
		return Finding{Why: why}
	}
	return s.match(&about, wants, taken)
}

// object holds the facts that items with the same id state.
type object struct {
	item    int // the one that says most
	outcome providers.Outcome
	fresh   bool
	created time.Time
	dated   bool
}

// rank orders outcomes: a later or more final one ranks higher.
var rank = map[providers.Outcome]int{providers.InProgress: 1, providers.Refused: 2, providers.TookEffect: 3, providers.Reversed: 4}

// objects returns the items' objects, by their ids.
func (s *Sweep) objects() map[string]*object {
	objects := map[string]*object{}
	for i, item := range s.items {
		outcome, fresh := OutcomeOf(s.look, item.texts)
		text, _ := item.texts.Only(s.look.Created)
		created, dated := TimeOf(text)
		o := objects[item.ID]
		switch {
		case o == nil:
			objects[item.ID] = &object{i, outcome, fresh, created, dated}
		case rank[outcome] > rank[o.outcome]:
			o.item, o.outcome, o.fresh = i, outcome, fresh
			fallthrough
		default:
			if dated && (!o.dated || created.Before(o.created)) {
				o.created, o.dated = created, true
			}
		}
	}
	return objects
}

// OutcomeOf says what an object's state means. One whose state the table does not have
// took effect, since it is there, but is not fresh.
func OutcomeOf(look *providers.Lookup, texts tables.Texts) (outcome providers.Outcome, fresh bool) {
	for _, means := range look.Means {
		for _, text := range texts.All(means.Field) {
			if (means.Equals == "" || means.Equals == text) && (means.Is != providers.Refused || allRefused(look, means.Field, texts)) {
				return means.Is, means.Is == providers.TookEffect && look.SameShape
			}
		}
	}
	if look.By == providers.ByParent && look.Items == "" {
		return untold, false
	}
	return providers.TookEffect, false
}

// allRefused reports whether every text at a field means a refusal: a refusal beside another state is none.
func allRefused(look *providers.Lookup, field string, texts tables.Texts) bool {
	return !slices.ContainsFunc(texts.All(field), func(text string) bool {
		return !slices.ContainsFunc(look.Means, func(m providers.Meaning) bool {
			return m.Is == providers.Refused && m.Field == field && (m.Equals == "" || m.Equals == text)
		})
	})
}

// untold is the outcome of what an object's state says nothing of.
const untold providers.Outcome = 0

const whyUntold = "the object is there, in a state that says nothing of this request"

// want is a comparison's wanted value.
type want struct {
	providers.Same
	text    string
	skipped bool // the request does not have it
	mark    bool // it is the key or the reference
	literal bool // it says the item's kind
}

func (s *Sweep) wants(about *Subject) (wants []want, why string) {
	for _, same := range s.look.Same {
		text, err := template.Expand(same.Is, template.Text, about.value)
		if err != nil && !(same.Optional && missing(err)) {
			return nil, reason(err)
		}
		wants = append(wants, want{same, text, err != nil, identifies(same), literal(same)})
	}
	return wants, ""
}

// shows reports whether an item has the operation's mark, and whether the other compared fields agree. alike reports
// whether a request value agrees. stated reports whether the item has the operation's kind.
func (s *Sweep) shows(item *Item, wants []want) (mark, agrees, alike, stated bool) {
	marks := s.look.Items == "" && (s.look.By == providers.ByParent || identifies(providers.Same{Is: s.look.Path}))
	mark, agrees, stated = true, true, true
	alike = strings.Contains(s.look.Path, "{path.") || strings.Contains(s.look.Path, "{request.")
	for _, w := range wants {
		if w.skipped {
			continue
		}
		is := slices.ContainsFunc(item.texts.All(w.Field), func(text string) bool { return equal(w.As, text, w.text) })
		switch {
		case w.mark:
			marks, mark = true, mark && is
		case w.literal:
			agrees, stated = agrees && is, stated && is
		default:
			agrees, alike = agrees && is, alike || is
		}
	}
	return marks && mark, agrees, alike, stated
}

// maxCandidates is the most objects that are kept because they only agree with a request.
const maxCandidates = 10

// match sorts the objects into three groups. The first have a mark. The second have it and cannot be the operation's.
// The candidates agree with the request and show no mark.
func (s *Sweep) match(about *Subject, wants []want, taken func(id string) bool) Finding {
	f := Finding{Exact: exact(s.look, about)}
	objects, seen := s.objects(), map[string]bool{}
	var found, contrary, nameless, undated, candidates []string
	for i := range s.items {
		item := &s.items[i]
		mark, agrees, alike, stated := s.shows(item, wants)
		if !(mark && stated) && !(agrees && alike) || seen[item.ID] {
			continue
		}
		seen[item.ID] = item.ID != ""
		o := objects[item.ID]
		dated := s.look.Created != "" && o.dated
		switch {
		case !f.Exact && taken(item.ID), !mark && dated && !about.Span(s.window.Until).has(o.created):
		case !mark && taken(item.ID):
		case !mark && len(candidates) < maxCandidates:
			candidates = append(candidates, item.ID)
		case !mark:
		case item.ID == "":
			nameless = append(nameless, "")
		case !agrees || taken(item.ID) || dated && (o.created.Before(about.since()) || !f.Exact && !about.Span(s.window.Until).has(o.created)):
			contrary = append(contrary, item.ID)
		case s.look.Created != "" && !dated:
			undated = append(undated, item.ID)
		default:
			found = append(found, item.ID)
		}
	}
	switch {
	case len(contrary) > 0:
		f.Kind, f.Objects = Ambiguous, append(contrary, found...)
		f.Why = "an object shows the operation's mark, but differs from its request, was created before it was first sent or long after its last attempt, or proves another operation: compare them at the provider"
	case len(found) > 1:
		f.Kind, f.Objects = Ambiguous, found
		f.Why = fmt.Sprintf("%d objects show the operation's mark: compare them at the provider, one may be a second effect, and resolve it by hand", len(found))
	case len(nameless) > 0:
		f.Objects = nameless[:1]
		f.Why = "an object that may be the operation's shows no id at " + s.look.ID
	case len(undated) > 0:
		f.Objects = undated
		f.Why = "an object that may be the operation's shows no time of creation at " + s.look.Created
	case s.long && (!f.Exact || len(found) == 0):
		f.Objects = found
		f.Why = s.Why()
	case len(found) == 1:
		return s.found(f, found[0], objects[found[0]])
	case len(candidates) > 0:
		f.Kind, f.Objects = Alike, candidates
		f.Why = "an object agrees with the request, but shows no mark of the operation: compare them at the provider, and resolve it by hand"
	default:
		f.Kind = Nothing
		f.Why = "the list was read to its end, and nothing in it is the operation's"
	}
	return f
}

func (s *Sweep) found(f Finding, id string, o *object) Finding {
	f.Objects, f.Created = []string{id}, o.created
	if o.outcome == untold && s.look.Fetch == "" {
		f.Why = whyUntold
		return f
	}
	f.Kind, f.Outcome = Found, o.outcome
	f.Fresh = o.fresh && s.look.Fetch == ""
	if !s.endpoint.SecretResponse {
		f.Body = s.items[o.item].Body
	}
	return f
}

// Fetch returns the request for a found object itself, or nil if the table names no such request. [Sweep.Fetched]
// reads the response. Before the caller sends the request, the account must be known to be the operation's.
func (s *Sweep) Fetch(about Subject, f Finding) (*http.Request, error) {
	if s.look.Fetch == "" || f.Kind != Found {
		return nil, nil
	}
	path, err := template.Expand(s.look.Fetch, template.Path, func(name string) (string, bool) {
		if name == "id" {
			return f.Objects[0], true
		}
		return about.value(name)
	})
	if err != nil {
		return nil, &PassedOver{reason(err)}
	}
	return newRequest(s.endpoint, &about, http.MethodGet, PathOf(about.URL, path), "", "")
}

// Fetched returns the finding with the object in the response to [Sweep.Fetch]'s request. The finding is inconclusive
// if a listed object could not be fetched.
func (s *Sweep) Fetched(f Finding, status int, header http.Header, body []byte) Finding {
	why := answerUnfit(s.provider, status, header, body, s.look.Needs)
	if why == "" {
		var raw [][]byte
		if raw, why = tables.Items(header, body, ""); why == "" && !strings.HasPrefix(string(raw[0][:min(1, len(raw[0]))]), "{") {
			why = "the answer is not a JSON object"
		}
	}
	if why != "" {
		return Finding{Objects: f.Objects, Exact: f.Exact, Created: f.Created, Why: "the object is listed, but could not be got: " + why}
	}
	f.Outcome, f.Fresh = OutcomeOf(s.look, s.fields.Read(body))
	if f.Outcome == untold {
		return Finding{Objects: f.Objects, Exact: f.Exact, Created: f.Created, Why: whyUntold}
	}
	f.Body = body
	return f
}
