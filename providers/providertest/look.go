package providertest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/providers"
)

// Visible makes look-ups show objects, and the list of events show events, only d after their creation, on the
// server's clock. It also applies to earlier ones.
func (s *Server) Visible(d time.Duration) { s.Lag(d, d) }

// Lag makes look-ups and the list of events show objects and events only some time after their creation, like a lagging
// index. Each has its own fixed delay between from and to, so a later one may be visible before an earlier one. It also
// applies to earlier ones.
func (s *Server) Lag(from, to time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = func(seq int) time.Duration {
		random := rand.New(rand.NewPCG(uint64(seq), 0))
		return from + time.Duration(random.Float64()*float64(to-from))
	}
}

// Turn moves the object with an id into a state, like a refund or a failed settlement. Look-ups and events then show
// the state as the table describes the state. The effect stays in the ledger with the state; Refused means that there
// never was an effect. It reports whether the object exists. Deliveries before a response are complete when it returns.
func (s *Server) Turn(id string, into providers.Outcome) bool {
	s.mu.Lock()
	for _, o := range slices.Backward(s.made) {
		if o.id == id {
			o.state, s.effects[o.seq-1].State = into, into
			early := s.happens(o, into)
			s.mu.Unlock()
			for _, e := range early {
				s.deliver(e)
			}
			return true
		}
	}
	s.mu.Unlock()
	return false
}

// asked is a table's look-up that a request matches.
type asked struct {
	endpoint *providers.Endpoint
	look     *providers.Lookup
	values   map[string]string // of the template's placeholders
}

// looks answers a look-up: for the credential's account, for the items of a list, or for an object by its id.
// It reports whether the request is one.
func (s *Server) looks(c *call) (a Answer, what string, is bool) {
	if s.OwnLooks {
		return Answer{}, "", false
	}
	if who := s.provider.Identity; who.Path != "" && get(c.r) && c.r.URL.RequestURI() == who.Path {
		if a, refused := s.unread(c, who.Needs); refused {
			return a, "may not look", true
		}
		account := c.world.account
		if who.Last {
			account = s.URL + "/accounts/" + account
		}
		return answerOf(http.StatusOK, put(nil, steps(who.Field), account, itself)), "looked", true
	}
	if values, is := asksFor(&s.provider.Feed, c); is {
		if a, refused := s.unread(c, s.provider.Feed.Needs); refused {
			return a, "may not look", true
		}
		return s.listEvents(c, values), "listed events", true
	}
	if l, values := s.asksForObjects(c); l != nil {
		if a, refused := s.unread(c, l.List.Needs); refused {
			return a, "may not look", true
		}
		return s.listObjects(c, l, values), "listed objects", true
	}
	ways, fetched, byID := s.ways(c)
	if len(ways) == 0 && !byID {
		return Answer{}, "", false
	}
	if len(ways) > 0 {
		if a, refused := s.unread(c, ways[0].look.Needs); refused {
			return a, "may not look", true
		}
	}
	if c.fault.kind == emptyList {
		fetched = nil
	}
	switch {
	case len(ways) > 0 && ways[0].look.Items != "":
		return s.list(c, ways, fetched), "looked", true
	case len(ways) > 0:
		a = s.single(c, ways, fetched)
	case fetched == nil:
		a = c.error(http.StatusNotFound, "no such object")
	default:
		a = answerOf(http.StatusOK, fetched)
	}
	if c.fault.kind == noList {
		a = answerOf(http.StatusOK, map[string]any{})
	}
	return a, "looked", true
}

// unread refuses a look-up without the permission.
func (s *Server) unread(c *call, needs string) (a Answer, refused bool) {
	if s.MayLook == nil || s.MayLook(c.observed()) {
		return Answer{}, false
	}
	needs = cmp.Or(needs, "to read this")
	return c.error(http.StatusForbidden, "the credential lacks a permission: "+needs), true
}

// ways returns the table's look-ups that match the request. If the request names an id, ways returns the object too.
func (s *Server) ways(c *call) (ways []asked, fetched any, byID bool) {
	for i := range s.provider.Endpoints {
		e := &s.provider.Endpoints[i]
		for j := range e.Lookups {
			look := &e.Lookups[j]
			if values, is := asks(look, c); is {
				ways = append(ways, asked{e, look, values})
			}
			if look.Fetch == "" || !get(c.r) {
				continue
			}
			values, is := filled(look.Fetch, c.r.URL.EscapedPath(), "[^/]+")
			if !is {
				continue
			}
			byID = true
			if o := s.byID(c, e, values["id"]); o != nil && fetched == nil && o.has(values) {
				fetched = o.stands(o.whole(), look.Means)
			}
		}
	}
	return ways, fetched, byID
}

// byID returns the newest object with this id that the request may see.
func (s *Server) byID(c *call, e *providers.Endpoint, id string) *creation {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range slices.Backward(s.made) {
		if o.id == id && o.world == c.world && o.endpoint == e && s.visible(o) {
			seen := *o
			return &seen
		}
	}
	return nil
}

// visible reports whether look-ups already show the object. s.mu is held.
func (s *Server) visible(o *creation) bool { return s.shows(o.at, o.seq) }

// shows reports whether look-ups and lists already show something of this time and number. s.mu is held.
func (s *Server) shows(at time.Time, seq int) bool {
	return s.lag == nil || !s.now().Before(at.Add(s.lag(seq)))
}

// matched returns the objects that the look-ups find, newest first.
func (s *Server) matched(c *call, ways []asked) (found []*creation, looks []*providers.Lookup) {
	if c.fault.kind == emptyList {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range slices.Backward(s.made) {
		if o.world != c.world || !s.visible(o) {
			continue
		}
		for _, way := range ways {
			if o.endpoint == way.endpoint && (c.fault.kind == unfiltered || o.has(way.values) && o.within(way)) {
				seen := *o
				found, looks = append(found, &seen), append(looks, way.look)
				break
			}
		}
	}
	return found, looks
}

// has reports whether the object matches these values of placeholders.
func (o *creation) has(values map[string]string) bool {
	for name, want := range values {
		if name == "since" || name == "until" || name == "id" {
			continue
		}
		v, ok := o.value(name)
		if !ok || fmt.Sprint(v) != want {
			return false
		}
	}
	return true
}

// within reports whether the object was made in the window that is asked for.
func (o *creation) within(way asked) bool {
	since, until := windowOf(way.values, way.look.TimeLayout)
	return inside(o.at, since, until)
}

// windowOf returns the window in a request's values of placeholders. A zero time is no bound.
func windowOf(values map[string]string, layout string) (since, until time.Time) {
	for name, text := range values {
		var at time.Time
		switch layout {
		case "unix":
			seconds, _ := strconv.ParseInt(text, 10, 64)
			at = time.Unix(seconds, 0)
		case "date":
			at, _ = time.Parse(time.DateOnly, text)
		case "rfc3339":
			at, _ = time.Parse(time.RFC3339, text)
		default:
			at, _ = time.Parse(layout, text)
		}
		switch name {
		case "since":
			since = at
		case "until":
			until = at
			if layout == "date" {
				until = until.AddDate(0, 0, 1)
			}
		}
	}
	return since, until
}

// inside reports whether a time is in a window, whose times are written without fractions.
func inside(at, since, until time.Time) bool {
	return !at.Before(since) && (until.IsZero() || !at.Truncate(time.Second).After(until))
}

// single answers a look-up for one object.
func (s *Server) single(c *call, ways []asked, base any) Answer {
	found, looks := s.matched(c, ways)
	way := ways[0]
	if way.look.By == providers.ByParent {
		if base == nil {
			base = map[string]any{}
			for _, v := range way.values {
				base = map[string]any{"id": v}
			}
		}
		if len(found) > 0 {
			base = found[0].parent(base, looks[0])
		}
		return answerOf(http.StatusOK, base)
	}
	if len(found) == 0 {
		return c.error(http.StatusNotFound, "no such object")
	}
	return answerOf(http.StatusOK, found[0].item(looks[0]))
}
