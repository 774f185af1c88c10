package console

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// perPage limits a page's rows.
const perPage = 50

// list is a page of operations, and its selection.
type list struct {
	Rows     []journal.Operation
	State    string
	Show     string // "", attention or undelivered
	Scope    string
	InScope  bool // by scope, "" too
	Provider string
	Steps    shown.Steps
	Older    string
	Oldest   bool
	Next     string // link to the next page
	Cut      bool   // the page's time was over before it was full
}

// bad rejects a faulty request for a list.
func bad(list, says string) error {
	return &failure{status: http.StatusBadRequest, says: says, link: list}
}

// stateOf returns the state with that name in a list, or none for no name.
func stateOf[S fmt.Stringer](list string, all []S, name string) ([]S, error) {
	if name == "" {
		return nil, nil
	}
	i := slices.IndexFunc(all, func(state S) bool { return state.String() == name })
	if i < 0 {
		return nil, bad(list, "There is no such state.")
	}
	return all[i : i+1], nil
}

// place returns the age that a list's page begins with, zero for any, and the handles that the page lies between.
func (c *console) place(list string, q url.Values) (older time.Time, after, before int64, err error) {
	if age := q.Get("older"); age != "" {
		d, err := time.ParseDuration(age)
		if err != nil || d < 0 {
			return older, 0, 0, bad(list, "An age is a duration such as 90m or 24h.")
		}
		older = c.now().Add(-d)
	}
	at := q.Get("at")
	if at == "" {
		return older, 0, 0, nil
	}
	n, err := strconv.ParseInt(at, 10, 64)
	switch {
	case err != nil || n < 1:
		return older, 0, 0, bad(list, "The link to the next page is not valid.")
	case q.Get("order") == "oldest":
		return older, n, 0, nil
	}
	return older, 0, n, nil
}

// operations lists them, newest first. It scans unindexed filters row by row for a bounded time, and offers to
// continue.
func (c *console) operations(w http.ResponseWriter, r *http.Request, _ string) error {
	q := r.URL.Query()
	l := &list{
		State: q.Get("state"), Show: q.Get("show"), Scope: q.Get("scope"), InScope: q.Get("in") == "scope" || q.Get("scope") != "", Provider: q.Get("provider"),
		Steps: shown.Steps{Flow: q.Get("flow"), InboundKey: q.Get("key")},
		Older: q.Get("older"), Oldest: q.Get("order") == "oldest",
	}
	filter := journal.Filter{Newest: !l.Oldest, Undelivered: l.Show == "undelivered"}
	if l.Show == "attention" {
		filter.NeedsAttention = c.now()
	}
	var err error
	if filter.States, err = stateOf("operations", journal.States, l.State); err != nil {
		return err
	}
	if slices.Contains(filter.States, journal.StateCompleted) { // no index has them
		filter.States = nil
	}
	if l.Show != "" && filter.NeedsAttention.IsZero() && !filter.Undelivered {
		return bad("operations", "There is no such selection.")
	}
	var older time.Time
	if older, filter.After, filter.Before, err = c.place("operations", q); err != nil {
		return err
	}
	if err := l.read(r.Context(), c.Journal, filter, older, q); err != nil {
		return err
	}
	c.render(w, r, http.StatusOK, "operations", &page{Heading: "Operations", List: l})
	return nil
}

// span is how many handles are searched at once for a scope or a provider.
const span = 20_000

// gap is the number of handles that spans do not search one by one: adopting a journal in a database skips a trillion.
const gap = 1 << 32

// read fills the page. It scans unindexed filters for a bounded time. For a scope or a provider it scans spans of
// handles, and skips those that the journal knows to be empty. Other filters it scans row by row.
func (l *list) read(ctx context.Context, j journal.Journal, filter journal.Filter, older time.Time, q url.Values) error {
	began := time.Now()
	late := func() bool { return time.Since(began) > lookFor }
	fits := func(op *journal.Operation) bool {
		return l.Steps.Has(op) && (!filter.Undelivered || op.Undelivered()) && (older.IsZero() || op.CreatedAt.Before(older)) && (l.State == "" || op.State.String() == l.State) &&
			(!l.InScope || op.Scope == l.Scope) && (l.Provider == "" || op.Provider == l.Provider)
	}
	passed := int64(0) // up to where
	// some reads one filter's operations, and reports whether the page is over.
	some := func(filter journal.Filter) (over bool, err error) {
		for op, err := range j.List(ctx, filter) {
			switch {
			case err != nil:
				return true, err
			case len(l.Rows) == perPage:
				l.Next = l.page(q, passed)
				return true, nil
			}
			if passed = op.Handle; fits(&op) {
				l.Rows = append(l.Rows, op)
			} else if late() {
				l.Next, l.Cut = l.page(q, passed), true
				return true, nil
			}
		}
		return false, nil
	}
	indexed := len(filter.States) > 0 || !filter.NeedsAttention.IsZero() || filter.Undelivered
	if indexed || !l.InScope && l.Provider == "" {
		_, err := some(filter)
		return err
	}
	if filter.Provider = l.Provider; l.InScope {
		filter.Scope = &l.Scope
	}
	first, end, err := bounds(ctx, j, filter)
	for over := false; err == nil && !over && first < end; {
		part := filter
		if part.After, part.Before = max(first, end-span)-1, end; l.Oldest {
			part.After, part.Before = first-1, min(first+span, end)
		}
		if over, err = some(part); over || err != nil {
			return err
		}
		if passed = part.After + 1; l.Oldest {
			passed, first = part.Before-1, part.Before
		} else {
			end = passed
		}
		if end-first > gap { // the rest has few operations for so many handles
			rest := filter
			if rest.Before = end; l.Oldest {
				rest.After, rest.Before = first-1, filter.Before
			}
			if first, end, err = bounds(ctx, j, rest); err != nil {
				return err
			}
		}
		if first < end && late() {
			l.Next, l.Cut = l.page(q, passed), true
			return nil
		}
	}
	return err
}

// bounds returns a filter's first handle, and the one after the last.
func bounds(ctx context.Context, j journal.Journal, within journal.Filter) (first, end int64, err error) {
	for _, newest := range []bool{false, true} {
		for op, err := range j.List(ctx, journal.Filter{After: within.After, Before: within.Before, Newest: newest, Limit: 1}) {
			if err != nil {
				return 0, 0, err
			}
			if end = op.Handle + 1; !newest {
				first = op.Handle
			}
		}
	}
	return first, end, nil
}

// page returns a link to the same list from another handle on.
func (l *list) page(q url.Values, at int64) string {
	q.Set("at", strconv.FormatInt(at, 10))
	return "operations?" + q.Encode()
}

// find finds one operation by its whole name. IDs are found by hashes, so a part finds nothing.
func (c *console) find(w http.ResponseWriter, r *http.Request, _ string) error {
	q := r.URL.Query()
	op, err := c.Journal.Get(r.Context(), journal.Ref{Scope: q.Get("scope"), Parent: q.Get("parent"), ID: q.Get("name")})
	if err != nil {
		return err
	}
	seeOther(w, operationLink(op.Handle))
	return nil
}

// attention lists everything that needs attention, oldest first.
func (c *console) attention(w http.ResponseWriter, r *http.Request, _ string) error {
	p, now := &page{Heading: "Needs attention", List: &list{}}, c.now()
	rows, more, err := shown.Page(c.Journal.List(r.Context(), journal.Filter{NeedsAttention: now, Limit: perPage*4 + 1}), perPage*4, nil, itself)
	if err != nil {
		return err
	}
	if p.List.Rows = rows; more {
		p.List.Next = "operations?order=oldest&show=attention"
	}
	if c.flows != nil {
		if err := p.addFlows(shown.AttentionFlows(r.Context(), c.flows, now)); err != nil {
			return err
		}
	}
	if err := c.reserved(r.Context(), p); err != nil {
		return err
	}
	if marks, keeps := c.Journal.(journal.Bookmarks); keeps {
		if p.Missed, _, err = shown.Page(shown.MissedEvents(r.Context(), marks, now), perPage*4, nil, itself); err != nil {
			return err
		}
	}
	c.render(w, r, http.StatusOK, "attention", p)
	return nil
}

// addFlows adds flows up to a page.
func (p *page) addFlows(flows iter.Seq2[journal.Flow, error]) (err error) {
	p.Flows, p.More, err = shown.Page(flows, perPage*4, nil, itself)
	return err
}

func itself[T any](one *T) T { return *one }

func (c *console) flowList(w http.ResponseWriter, r *http.Request, _ string) error {
	q := r.URL.Query()
	p := &page{Heading: "Flows", List: &list{State: q.Get("state"), Steps: shown.Steps{Flow: q.Get("name"), InboundKey: q.Get("key")}}}
	key := p.List.Steps.InboundKey
	if c.flows == nil {
		return &failure{status: http.StatusNotFound, says: "This journal keeps no flows."}
	}
	filter := journal.FlowFilter{Newest: true, ID: p.List.Steps.Flow}
	var err error
	if filter.States, err = stateOf("flows", journal.FlowStates, p.List.State); err != nil {
		return err
	}
	began := time.Now()
	err = p.addFlows(func(yield func(journal.Flow, error) bool) {
		for f, err := range c.flows.ListFlows(r.Context(), filter) {
			if err != nil || key == "" || seam.InboundKey(f.Parent) == key {
				if !yield(f, err) {
					return
				}
			} else if p.List.Cut = time.Since(began) > lookFor; p.List.Cut {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	c.render(w, r, http.StatusOK, "flows", p)
	return nil
}
