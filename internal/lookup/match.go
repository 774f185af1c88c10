package lookup

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/template"
	"github.com/onceward/onceward/providers"
)

// Kind is what a look came to.
type Kind uint8

const (
	// Inconclusive: it says nothing; look again.
	Inconclusive Kind = iota

	// Found: one object, which is the operation's.
	Found

	// Nothing: the whole list was read, and none of it is the operation's. That is not yet
	// a proof that the object is not there.
	Nothing

	// Ambiguous: two objects or more, or one that contradicts the request: for a person.
	Ambiguous
)

// String returns the kind in a word, "found" for Found.
func (k Kind) String() string {
	switch k {
	case Inconclusive:
		return "inconclusive"
	case Found:
		return "found"
	case Nothing:
		return "nothing"
	case Ambiguous:
		return "ambiguous"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Finding is what a look found of one operation.
type Finding struct {
	Kind Kind

	// Objects are the ids of the objects that may be the operation's: one, if Found.
	Objects []string

	// Outcome is what the state of a Found object means. Until a look-up with a Fetch has
	// its object, it is what the item tells.
	Outcome providers.Outcome

	// Fresh says that the object is as the create would have answered it, in shape and state:
	// Body is then the operation's answer. Else the operation is settled by its id alone.
	Fresh bool

	// Exact says that the object was told by a key, or by a reference that is the operation's
	// alone; otherwise it is one that looks alike, or has the caller's reference.
	Exact bool

	// Unread says that an object may be the operation's, as far as it is known what its request
	// had: it is inconclusive.
	Unread bool

	// Created is when the object was created; zero if it does not tell.
	Created time.Time

	// Body is the object as it was read; nil where the endpoint's answers are secrets.
	Body []byte

	// Why says, unless it is Found, what was seen and what can be done.
	Why string
}

// Match says for each of the operations which of the items is its object. taken reports
// whether an object of the endpoint's kind, by its id, proves another operation already.
//
// Among the operations have to be all that are unsettled or in flight and may have been sent to
// the endpoint, for the account, whether or not they are due a look: two that look alike share
// what looks like either. N operations that the same N objects look like get one each, if their
// requests are the same; else one may get what another has made. So have to be those that are completed by an
// object which is not known.
func (s *Sweep) Match(operations []Subject, taken func(id string) bool) []Finding {
	findings := make([]Finding, len(operations))
	m := matching{sweep: s, operations: operations, taken: taken, findings: findings, likes: make([][]string, len(operations))}
	if why := s.Why(); why != "" && !s.long {
		for i := range findings {
			findings[i] = Finding{Why: why}
		}
		return findings
	}
	m.prepare()
	open := make([]bool, len(operations)) // whose candidates decide
	for i := range operations {
		findings[i], open[i] = m.candidates(i)
		if why, elsewhere := s.serves(&operations[i]); why != "" {
			findings[i], open[i] = Finding{Why: why, Unread: findings[i].Unread && !elsewhere}, false
			if elsewhere { // what is listed here can't be its object
				m.likes[i] = nil
			}
		}
	}
	m.settle(open)
	for i := range findings {
		if f := &findings[i]; f.Unread && f.Kind != Nothing {
			*f = Finding{Objects: m.likes[i], Unread: true, Why: "what its request had is not known"}
		}
	}
	return findings
}

// Lists tells whether an object with the id was read.
func (s *Sweep) Lists(id string) bool {
	return slices.ContainsFunc(s.items, func(item Item) bool { return item.ID == id })
}

type matching struct {
	sweep      *Sweep
	operations []Subject
	taken      func(id string) bool
	findings   []Finding

	says    [][][]string // of each item, what stands at the field of each Same
	objects map[string]*object
	likes   [][]string // of each operation, the ids of its candidates
}

// object is what the items of one id say of it.
type object struct {
	item    int // the one that says most
	outcome providers.Outcome
	fresh   bool
	created time.Time
	dated   bool
}

// rank orders outcomes by how much they say: what happened later, or for good.
var rank = map[providers.Outcome]int{providers.InProgress: 1, providers.Refused: 2, providers.TookEffect: 3, providers.Reversed: 4}

func (m *matching) prepare() {
	s := m.sweep
	m.says = make([][][]string, len(s.items))
	m.objects = map[string]*object{}
	for i, item := range s.items {
		m.says[i] = make([][]string, len(s.look.Same))
		for j, same := range s.look.Same {
			m.says[i][j] = item.texts.All(same.Field)
		}
		outcome, fresh := outcomeOf(s.look, item.texts)
		text, _ := item.texts.Only(s.look.Created)
		created, dated := timeOf(text)
		o := m.objects[item.ID]
		switch {
		case o == nil:
			m.objects[item.ID] = &object{i, outcome, fresh, created, dated}
		case rank[outcome] > rank[o.outcome]:
			o.item, o.outcome, o.fresh = i, outcome, fresh
			fallthrough
		default:
			if dated && (!o.dated || created.Before(o.created)) {
				o.created, o.dated = created, true
			}
		}
	}
}

// outcomeOf says what the state of an object means. One whose state the table does not have
// took effect, since it is there, but is not fresh.
func outcomeOf(look *providers.Lookup, texts tables.Texts) (outcome providers.Outcome, fresh bool) {
	for _, means := range look.Means {
		for _, text := range texts.All(means.Field) {
			if means.Equals == "" || means.Equals == text {
				return means.Is, means.Is == providers.TookEffect && look.SameShape
			}
		}
	}
	if look.By == providers.ByParent && look.Items == "" {
		return untold, false
	}
	return providers.TookEffect, false
}

// untold is the outcome of what an object's state says nothing of.
const untold providers.Outcome = 0

const whyUntold = "the object is there, in a state that says nothing of this request"

// want is what a comparison asks for, for one operation.
type want struct {
	text    string
	as      providers.Comparison
	skipped bool // the request does not have it

	identifies, literal bool
}

// candidates finds the objects that may be an operation's. open is false where what was
// found, or not, settles it already.
func (m *matching) candidates(n int) (f Finding, open bool) {
	s, about := m.sweep, &m.operations[n]
	if why := unfit(s.endpoint, s.look, about); why != "" && !about.Unread {
		return Finding{Why: why}, false
	}
	wants := make([]want, len(s.look.Same))
	for j, same := range s.look.Same {
		text, err := template.Expand(same.Is, template.Text, about.value)
		if err != nil && !((same.Optional || about.Unread) && missing(err)) {
			return Finding{Why: reason(err)}, false
		}
		wants[j] = want{text, same.As, err != nil, identifies(same), literal(same)}
		f.Unread = f.Unread || err != nil && about.Unread
	}
	f.Exact = !f.Unread && exact(s.look, about)
	seen := map[string]bool{}
	var nameless, undated, contrary, early, late []string
	for i, item := range s.items {
		holds, identified, stated := true, false, true
		for j, w := range wants {
			if w.skipped {
				continue
			}
			is := slices.ContainsFunc(m.says[i][j], func(text string) bool { return equal(w.as, text, w.text) })
			if holds = holds && is; !holds && !f.Exact {
				break
			}
			switch {
			case w.identifies:
				identified = identified || is
			case w.literal: // it says of what kind the item is
				stated = stated && is
			}
		}
		if !holds {
			if f.Exact && identified && stated && !seen[item.ID] {
				contrary = append(contrary, item.ID)
				seen[item.ID] = true
			}
			continue
		}
		if item.ID == "" {
			nameless = append(nameless, "")
			continue
		}
		if seen[item.ID] {
			continue
		}
		seen[item.ID] = true
		if m.taken(item.ID) {
			if f.Exact {
				contrary = append(contrary, item.ID)
			}
			continue
		}
		if by := s.look.Created; by != "" {
			o := m.objects[item.ID]
			switch {
			case !o.dated:
				undated = append(undated, item.ID)
				continue
			case o.created.Before(about.read()) && !f.Exact:
				continue
			case o.created.Before(about.since()):
				early = append(early, item.ID)
				continue
			case !f.Exact && !about.Last.IsZero() && o.created.After(about.Last.Add(after)):
				late = append(late, item.ID)
				continue
			}
		}
		m.likes[n] = append(m.likes[n], item.ID)
	}
	found := m.likes[n]
	switch {
	case len(contrary) > 0:
		f.Kind, f.Objects = Ambiguous, append(contrary, found...)
		f.Why = "an object has what is this operation's alone, but differs from its request, or proves another operation: compare them at the provider"
	case len(nameless) > 0:
		f.Why = "an object that may be the operation's shows no id at " + s.look.ID
	case len(undated) > 0:
		f.Objects = undated
		f.Why = "an object that may be the operation's shows no time of creation at " + s.look.Created
	case f.Exact && len(early) > 0:
		f.Objects = early
		f.Why = "an object that has what is this operation's alone was created before the operation was first sent: compare the clocks"
	case len(early) > 0 && len(found) == 0:
		f.Objects = early
		f.Why = "an object that looks like the operation's was created shortly before the operation was first sent: somebody may have done it before, or a clock was wrong"
	case len(late) > 0 && len(found) == 0:
		f.Objects = late
		f.Why = "an object that looks like the operation's was created long after its last attempt: somebody may have done it again"
	case s.long && (!f.Exact || len(found) == 0):
		f.Objects = found
		f.Why = s.Why()
	case len(found) == 0:
		f.Kind = Nothing
		f.Why = "the list was read to its end, and nothing in it is the operation's"
	default:
		return f, true
	}
	return f, false
}

// settle gives candidates to operations. Those that share some, by whatever chain, are decided
// together: each gets one where all of them look like all of the objects, there are as many, and the requests are
// the same, so that it is all one which is whose.
func (m *matching) settle(open []bool) {
	holders := map[string][]int{} // the operations that an object may be of
	for n, ids := range m.likes {
		for _, id := range ids {
			holders[id] = append(holders[id], n)
		}
	}
	done := make([]bool, len(open))
	for n := range open {
		if !open[n] || done[n] {
			continue
		}
		group, ids := m.connected(n, holders, done)
		alike := true
		for _, other := range group {
			same := len(group) == 1 || m.operations[other].Request != "" && m.operations[other].Request == m.operations[n].Request
			alike = alike && open[other] && same && len(m.likes[other]) == len(ids)
		}
		if !alike || len(group) != len(ids) {
			for _, other := range group {
				if open[other] {
					m.ambiguous(other, len(group))
				}
			}
			continue
		}
		slices.SortFunc(group, func(a, b int) int {
			return cmp.Or(m.operations[a].First.Compare(m.operations[b].First), cmp.Compare(a, b))
		})
		slices.SortFunc(ids, func(a, b string) int {
			return cmp.Or(m.objects[a].created.Compare(m.objects[b].created), cmp.Compare(a, b))
		})
		for i, other := range group {
			m.found(other, ids[i])
		}
	}
}

// connected returns the operations that share objects with n, itself included, and those objects.
func (m *matching) connected(n int, holders map[string][]int, done []bool) (group []int, ids []string) {
	seen := map[string]bool{}
	done[n] = true
	for queue := []int{n}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		group = append(group, at)
		for _, id := range m.likes[at] {
			if seen[id] {
				continue
			}
			seen[id] = true
			ids = append(ids, id)
			for _, other := range holders[id] {
				if !done[other] {
					done[other] = true
					queue = append(queue, other)
				}
			}
		}
	}
	return group, ids
}

func (m *matching) ambiguous(n, operations int) {
	f := &m.findings[n]
	f.Kind, f.Objects = Ambiguous, m.likes[n]
	f.Why = fmt.Sprintf("%d objects may be the operation's", len(f.Objects))
	if operations > 1 {
		f.Why = fmt.Sprintf("%d operations that look alike share %d objects", operations, len(f.Objects))
	}
	f.Why += ": compare them at the provider, one may be a second effect, and resolve it by hand"
}

func (m *matching) found(n int, id string) {
	o := m.objects[id]
	f := &m.findings[n]
	f.Objects, f.Created = []string{id}, o.created
	if o.outcome == untold && m.sweep.look.Fetch == "" {
		f.Why = whyUntold
		return
	}
	f.Kind, f.Outcome = Found, o.outcome
	f.Fresh = o.fresh && m.sweep.look.Fetch == ""
	if !m.sweep.endpoint.SecretResponse {
		f.Body = m.sweep.items[o.item].Body
	}
}

// Fetch returns the request that gets a found object itself, or nil where the item is all there
// is to get. What comes of it is for [Sweep.Fetched]. Before it is sent, the account has to be
// known to be the operation's.
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
	u := *about.URL
	u.RawQuery, u.Fragment, u.RawFragment, u.User, u.RawPath = "", "", "", nil, path
	if u.Path, err = url.PathUnescape(path); err != nil {
		return nil, &PassedOver{"its path is malformed"}
	}
	return newRequest(s.endpoint, &about, http.MethodGet, &u, "", s.accept())
}

// Fetched returns the finding with what came of [Sweep.Fetch]'s request. An object that can't
// be got, though it was listed, makes it inconclusive.
func (s *Sweep) Fetched(f Finding, status int, header http.Header, body []byte) Finding {
	why := answerUnfit(s.provider, status, header, body, s.look.Needs)
	if why == "" {
		var raw [][]byte
		if body, raw, why = s.unpack(header, body, ""); why == "" && !strings.HasPrefix(string(raw[0][:min(1, len(raw[0]))]), "{") {
			why = "the answer is not a JSON object"
		}
	}
	if why != "" {
		return Finding{Objects: f.Objects, Exact: f.Exact, Created: f.Created, Why: "the object is listed, but could not be got: " + why}
	}
	f.Outcome, f.Fresh = outcomeOf(s.look, s.fields.Read(body))
	if f.Outcome == untold {
		return Finding{Objects: f.Objects, Exact: f.Exact, Created: f.Created, Why: whyUntold}
	}
	f.Body = body
	return f
}
