// Package servertest checks from outside that an HTTP handler, any handler with or without package server, serves
// idempotency keys. The checks ask over loopback, and explain each failure with the failing request.
//
// The rules are those of draft-ietf-httpapi-idempotency-key-header-07, and further ones. Without those, a caller who
// repeats a request is served twice or misled. The rules say nothing of crashes: kill the process for those.
package servertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// T is the part of testing.TB that Check uses.
type T interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
}

// Request is a request that the handler serves with a 2xx or 3xx and one effect.
type Request struct {
	Method string      // default: POST
	Path   string      // default: /
	Header http.Header // of each request, such as credentials; it has no Idempotency-Key
	Body   string
	Other  string // another body that the handler would serve as well

	// Another has the credentials of another tenant, in place of those in Header. Nil means that there is one tenant.
	Another http.Header

	// Effects counts the effects of all requests so far. If it is nil, effects are not counted.
	Effects func() int

	// Optional says that the handler serves a request without a key.
	Optional bool
}

// Check asks the handler, and calls t.Errorf once for each broken rule. Check uses keys that begin with "servertest-",
// each once: run Check on a fresh store.
func Check(t T, h http.Handler, r Request) {
	t.Helper()
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	if r.Path == "" {
		r.Path = "/"
	}
	s := httptest.NewServer(h)
	defer s.Close()
	c := &check{t: t, Request: r, server: s, broken: map[string]bool{}}
	c.repeats()
	c.others()
	c.tenants()
	c.keys()
	c.atOnce()
}

type check struct {
	Request
	t      T
	server *httptest.Server

	mu     sync.Mutex
	broken map[string]bool // rules
}

// answer is an answer with its request.
type answer struct {
	asked  string
	status int
	header http.Header
	body   string
}

func (a answer) served() bool { return a.status >= 200 && a.status < 400 }

func (a answer) refused() bool { return a.status >= 400 && a.status < 500 }

func (a answer) String() string { return fmt.Sprintf("%d %.200q", a.status, a.body) }

func (c *check) ask(body string, keys ...string) answer { return c.askAs(c.Header, "", body, keys...) }

// askAs asks with these headers. as says whose they are.
func (c *check) askAs(header http.Header, as, body string, keys ...string) answer {
	a := answer{asked: fmt.Sprintf("%s %s%s\n", c.Method, c.Path, as)}
	for _, key := range keys {
		a.asked += fmt.Sprintf("Idempotency-Key: %.300s\n", key)
	}
	a.asked += fmt.Sprintf("\n%.500s", body)
	req, err := http.NewRequestWithContext(c.t.Context(), c.Method, c.server.URL+c.Path, strings.NewReader(body))
	if err != nil {
		c.fails(a, "a request can be made", "%v", err)
		return a
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	for _, key := range keys {
		req.Header.Add("Idempotency-Key", key)
	}
	client := *c.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got, err := client.Do(req)
	if err != nil {
		c.fails(a, "the request is answered", "%v", err)
		return a
	}
	defer got.Body.Close()
	said, err := io.ReadAll(got.Body)
	if err != nil {
		c.fails(a, "the answer is whole", "%v", err)
	}
	a.status, a.header, a.body = got.StatusCode, got.Header, string(said)
	return a
}

// fails reports a rule that an answer breaks, once. Several answers may break it at once.
func (c *check) fails(a answer, rule, why string, args ...any) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken[rule] {
		return
	}
	c.broken[rule] = true
	c.t.Errorf("servertest: %s: %s\nThe request that shows it:\n%s", rule, fmt.Sprintf(why, args...), a.asked)
}

// effects returns how many effects do has.
func (c *check) effects(do func()) (n int, counted bool) {
	if c.Effects == nil {
		do()
		return 0, false
	}
	before := c.Effects()
	do()
	return c.Effects() - before, true
}

// takes makes a request, and checks that the request had want effects.
func (c *check) takes(want int, rule string, ask func() answer) (a answer) {
	c.t.Helper()
	if n, counted := c.effects(func() { a = ask() }); counted && n != want {
		c.fails(a, rule, "there were %d effects, not %d", n, want)
	}
	return a
}

func (c *check) repeats() {
	c.t.Helper()
	first := c.takes(1, "the first request takes effect", func() answer { return c.ask(c.Body, "servertest-repeat-0001") })
	if !first.served() {
		c.fails(first, "the first request is served", "it was answered by %v: give Check a request that the handler serves", first)
		return
	}
	for range 2 {
		again := c.takes(0, "a repeated request takes no effect", func() answer { return c.ask(c.Body, "servertest-repeat-0001") })
		if again.status != first.status || again.body != first.body {
			c.fails(again, "a repeated request gets the first answer", "it was answered by %v, and the first by %v", again, first)
		}
		if first.header.Get("Location") != again.header.Get("Location") {
			c.fails(again, "a repeated request gets the first answer", "its Location is %q, and the first was %q", again.header.Get("Location"), first.header.Get("Location"))
		}
		if len(again.header["Set-Cookie"]) > 0 && again.header.Get("Set-Cookie") == first.header.Get("Set-Cookie") {
			c.fails(again, "a cookie is given once", "the repeated answer has the cookie of the first exchange")
		}
	}
	another := c.takes(1, "the same request under another key takes effect", func() answer { return c.ask(c.Body, "servertest-repeat-0002") })
	if !another.served() {
		c.fails(another, "the same request under another key is served", "it was answered by %v", another)
	}
}

func (c *check) others() {
	c.t.Helper()
	if c.Other == "" {
		return
	}
	first := c.ask(c.Body, "servertest-other-0001")
	other := c.takes(0, "another request under a key takes no effect", func() answer { return c.ask(c.Other, "servertest-other-0001") })
	if !other.refused() {
		c.fails(other, "another request under a key is refused", "it was answered by %v: the draft asks for a 422", other)
	}
	if other.body == first.body && first.body != "" {
		c.fails(other, "another request under a key learns nothing", "it got the answer of the first request")
	}
	if again := c.ask(c.Body, "servertest-other-0001"); again.status != first.status || again.body != first.body {
		c.fails(again, "a key keeps its answer after another request", "it was answered by %v, and before by %v", again, first)
	}
}

func (c *check) tenants() {
	c.t.Helper()
	if c.Another == nil {
		return
	}
	const key = "servertest-tenant-0001"
	first := c.ask(c.Body, key)
	theirs := c.takes(1, "another tenant's key is another key", func() answer {
		return c.askAs(c.Another, ", with the headers of Request.Another", c.Body, key)
	})
	if !theirs.served() {
		c.fails(theirs, "another tenant's key is another key", "it was answered by %v", theirs)
	}
	if again := c.ask(c.Body, key); again.status != first.status || again.body != first.body {
		c.fails(again, "a key keeps its answer after another tenant's request", "it was answered by %v, and before by %v", again, first)
	}
}

func (c *check) keys() {
	c.t.Helper()
	for _, row := range []struct {
		rule string
		keys []string
	}{
		{"a request without a key is refused", nil},
		{"a request with two keys is refused", []string{"servertest-two-0001", "servertest-two-0002"}},
		{"an empty key is refused", []string{""}},
		{"a key of 4,000 bytes is refused", []string{strings.Repeat("k", 4000)}},
	} {
		if row.keys == nil && c.Optional {
			continue
		}
		var got answer
		n, counted := c.effects(func() { got = c.ask(c.Body, row.keys...) })
		if !got.refused() {
			c.fails(got, row.rule, "it was answered by %v: the draft asks for a 400", got)
		}
		if counted && n != 0 {
			c.fails(got, row.rule, "it took effect")
		}
	}
}

// askers is how many requests are made at once.
const askers = 8

func (c *check) atOnce() {
	c.t.Helper()
	const key = "servertest-once-0001"
	answers := make([]answer, askers)
	var last answer
	n, counted := c.effects(func() {
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = c.ask(c.Body, key) })
		}
		all.Wait()
		last = c.ask(c.Body, key)
	})
	if counted && n != 1 {
		c.fails(last, "requests at once under one key take effect once", "%d at once, and one after them, had %d effects", askers, n)
	}
	if !last.served() {
		c.fails(last, "after requests at once the key has an answer", "it was answered by %v", last)
	}
	for _, a := range answers {
		switch {
		case a.served() && a.body != last.body:
			c.fails(a, "requests at once under one key get one answer", "one was answered by %v, and another by %v", a, last)
		case a.status == http.StatusConflict && a.header.Get("Retry-After") == "":
			c.fails(a, "a 409 says when to ask again", "it has no Retry-After")
		case !a.served() && a.status != http.StatusConflict && a.status != http.StatusTooEarly && a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable:
			c.fails(a, "a request that is being served is answered by 409", "it was answered by %v", a)
		}
	}
}
