package console_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

var everything = []console.Action{console.Reveal, console.Resolve, console.Cancel, console.RetryFlow, console.GiveUp, console.ResolveReceipt}

// site is a console over a planted journal, behind a prefix, together with its log.
type site struct {
	*httptest.Server
	t       *testing.T
	journal *sqlite.Journal
	log     *bytes.Buffer
	prefix  string
}

func open(t *testing.T, prefix string, change func(*console.Options)) *site {
	t.Helper()
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "j.db"), sqlite.Options{Volatile: true})
	require.NoError(t, err)
	_, err = planted.Plant(t.Context(), j, time.Now())
	require.NoError(t, err)
	client, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe()}})
	require.NoError(t, err)
	s := &site{t: t, journal: j, log: new(bytes.Buffer), prefix: prefix}
	options := console.Options{
		Journal: j, Client: client, Actions: everything, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
		Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil },
	}
	if change != nil {
		change(&options)
	}
	h, err := console.New(options)
	require.NoError(t, err)
	s.Server = httptest.NewServer(http.StripPrefix(strings.TrimSuffix(prefix, "/"), h))
	t.Cleanup(func() {
		s.Close()
		require.NoError(t, client.Shutdown(context.Background()))
		require.NoError(t, j.Close())
	})
	return s
}

// openReceiving is open over a journal with receipts.
func openReceiving(t *testing.T, prefix string, change func(*console.Options)) *site {
	t.Helper()
	s := open(t, prefix, change)
	require.NoError(t, planted.PlantReceipts(t.Context(), s.journal, time.Now().Add(-time.Hour), 7*24*time.Hour))
	return s
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	text string
}

func (s *site) do(req *http.Request) answer {
	s.t.Helper()
	direct := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := direct.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	require.NoError(s.t, err)
	return answer{resp, text.String()}
}

func (s *site) get(path string) answer {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.URL+s.prefix+path, nil)
	require.NoError(s.t, err)
	return s.do(req)
}

func (s *site) post(path string, form url.Values, header ...string) answer {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.URL+s.prefix+path, strings.NewReader(form.Encode()))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return s.do(req)
}

func (s *site) operation(id string) journal.Operation {
	s.t.Helper()
	op, err := s.journal.Get(s.t.Context(), journal.Ref{ID: id})
	require.NoError(s.t, err)
	return op
}

func seenOf(op journal.Operation, more ...string) url.Values {
	form := url.Values{"h": {fmt.Sprint(op.Handle)}, "generation": {fmt.Sprint(op.Generation)}, "claim": {fmt.Sprint(op.Claim)}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

// pages are every page that only reads.
func pages(s *site) []string {
	all := []string{"", "operations", "operations?state=unknown&order=oldest", "operations?state=completed", "operations?show=attention", "attention", "operations?show=undelivered",
		"operations?scope=" + planted.Scope, "operations?provider=adyen", "operations?older=5h", "flows", "flows?state=set_aside", "flow?name=" + planted.SetAside,
		"receipts", "receipts?state=reserved&order=oldest", "receipts?state=completed", "receipts?tenant=" + planted.Tenant, "receipts?consumer=" + planted.Consumer,
		"receipts?endpoint=refunds.create", "receipts?older=5h", "receipt?h=1", "receipt?h=2", "receipt?h=3", "receipt?h=4", "receipt?h=5"}
	for op, err := range s.journal.List(s.t.Context(), journal.Filter{}) {
		require.NoError(s.t, err)
		all = append(all, fmt.Sprintf("operation?h=%d", op.Handle))
	}
	return all
}

func TestNewRefuses(t *testing.T) {
	s := open(t, "/", nil)
	yes := func(*http.Request, console.Action) (string, error) { return "ann", nil }
	for name, o := range map[string]console.Options{
		"no journal": {Authorize: yes}, "nobody is asked": {Journal: s.journal},
		"resolving without a client": {Journal: s.journal, Authorize: yes, Actions: []console.Action{console.Resolve}},
		"cancelling without one":     {Journal: s.journal, Authorize: yes, Actions: []console.Action{console.Cancel}},
	} {
		_, err := console.New(o)
		assert.ErrorContains(t, err, "console: ", name)
	}
}

// A user without permission sees and changes nothing, and gets no reason. Every request calls Authorize before
// anything else.
func TestAuthorize(t *testing.T) {
	asked := map[console.Action]int{}
	s := openReceiving(t, "/", func(o *console.Options) {
		o.Authorize = func(_ *http.Request, a console.Action) (string, error) {
			asked[a]++
			return "", errors.New("the group of the inner circle is needed, not that of Bearer eyJhbGciOiJ.eyJzdWIi.c2ln")
		}
	})
	for _, path := range append(pages(s), "console.css", "console.js", "events", "find?name="+planted.Unknown, "none", "reveal", ".well-known/a") {
		a := s.get(path)
		assert.Equal(t, http.StatusForbidden, a.StatusCode, path)
		assert.NotContains(t, a.text, "invoice")
		assert.NotContains(t, a.text, "inner circle")
	}
	for _, path := range []string{"reveal", "resolve", "cancel", "retry", "giveup", "revealreceipt", "resolvereceipt"} {
		a := s.post(path, seenOf(s.operation(planted.Unknown), "as", "executed", "because", "x"), "Sec-Fetch-Site", "cross-site")
		assert.Equal(t, http.StatusForbidden, a.StatusCode, path)
		assert.Contains(t, a.text, "You may not")
	}
	for _, a := range append(everything, console.Look) {
		assert.Positive(t, asked[a], a.String())
	}
	assert.Equal(t, journal.StateUnknown, s.operation(planted.Unknown).State)
	assert.Contains(t, s.log.String(), "inner circle")
	assert.NotContains(t, s.log.String(), "eyJ", "the log has no token")
}

// An action that is not switched on appears on no page, and the handler refuses it to every user.
func TestReadOnlyByDefault(t *testing.T) {
	s := openReceiving(t, "/", func(o *console.Options) { o.Actions = nil })
	for _, path := range []string{"reveal", "resolve", "cancel", "retry", "giveup", "revealreceipt", "resolvereceipt"} {
		a := s.post(path, seenOf(s.operation(planted.Unknown), "as", "executed", "because", "x", "name", planted.SetAside))
		assert.Equal(t, http.StatusForbidden, a.StatusCode, path)
		assert.Contains(t, a.text, "switched off")
	}
	assert.Equal(t, journal.StateUnknown, s.operation(planted.Unknown).State)
	for _, path := range pages(s) {
		assert.NotContains(t, s.get(path).text, `method="post"`, path)
	}
}

func TestHeaders(t *testing.T) {
	for _, prefix := range []string{"/", "/a/b/"} {
		s := openReceiving(t, prefix, nil)
		for _, path := range append(pages(s), "console.css", "console.js", "none", "operation?h=4711", "operation", "operations?state=odd") {
			a := s.get(path)
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'",
				"Cache-Control":           "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin",
			} {
				assert.Equal(t, want, a.Header.Get(name), path)
			}
			assert.Empty(t, a.Header.Values("Set-Cookie"))
		}
		assert.Equal(t, http.StatusNotFound, s.get("operation?h=4711").StatusCode)
		assert.Equal(t, http.StatusBadRequest, s.get("operation").StatusCode)
		assert.Equal(t, http.StatusBadRequest, s.get("operations?state=odd").StatusCode)
		assert.Equal(t, http.StatusMethodNotAllowed, s.get("resolve").StatusCode)
	}
}

var links = regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)

// Every link of every page leads somewhere under the prefix, relative to the page.
func TestLinksWorkUnderAnyPrefix(t *testing.T) {
	for _, prefix := range []string{"/", "/a/b/"} {
		s := openReceiving(t, prefix, nil)
		for _, path := range pages(s) {
			page := s.get(path)
			require.Equal(t, http.StatusOK, page.StatusCode, path)
			for _, found := range links.FindAllStringSubmatch(page.text, -1) {
				link := html.UnescapeString(found[1])
				if strings.HasPrefix(link, "#") || link == "find" {
					continue
				}
				u, err := page.Request.URL.Parse(link)
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(u.Path, prefix), link)
				a := s.get(strings.TrimPrefix(u.RequestURI(), prefix))
				assert.Contains(t, []int{http.StatusOK, http.StatusMethodNotAllowed}, a.StatusCode, "%s on %s", link, path)
			}
		}
		if prefix != "/" {
			a := s.do(func() *http.Request {
				r, _ := http.NewRequest(http.MethodGet, s.URL+strings.TrimSuffix(prefix, "/"), nil)
				return r
			}())
			assert.Equal(t, http.StatusPermanentRedirect, a.StatusCode)
			u, err := a.Request.URL.Parse(a.Header.Get("Location"))
			require.NoError(t, err)
			assert.Equal(t, prefix, u.Path)
		}
	}
}

// No page shows a body's value, a key or a query, or what a hostile name would do to the page.
func TestPagesShowNoSecrets(t *testing.T) {
	s := openReceiving(t, "/", nil)
	for _, path := range append(pages(s), "console.js") {
		text := s.get(path).text
		for _, canary := range []string{planted.Card, planted.Secret, "0123456789abcdef", "expand=balance", "<script>document", "</td>\"", "\u202e", "\u2066", "\u009b", "\x1b"} {
			assert.NotContains(t, text, canary, path)
		}
	}
	assert.NotContains(t, s.log.String(), planted.Secret)
}

// Bodies are revealed only for a reason. The log gets the reason and the user. Secrets are masked even then.
func TestReveal(t *testing.T) {
	s := open(t, "/", nil)
	op := s.operation(planted.Completed)
	assert.Equal(t, http.StatusBadRequest, s.post("reveal", url.Values{"h": {fmt.Sprint(op.Handle)}}).StatusCode)
	a := s.post("reveal", url.Values{"h": {fmt.Sprint(op.Handle)}, "because": {"ticket 7"}})
	assert.Equal(t, http.StatusOK, a.StatusCode)
	assert.Contains(t, a.text, "amount = 2000")
	assert.Contains(t, a.text, "ch_1")
	assert.NotContains(t, a.text, planted.Card)
	assert.NotContains(t, a.text, planted.Secret)
	assert.NotContains(t, a.text, "123\n")
	assert.Contains(t, s.log.String(), `actor=ann because="ticket 7"`)
}

// A form from another page is refused, also from a permitted user's browser.
func TestCrossOrigin(t *testing.T) {
	s := open(t, "/", nil)
	form := seenOf(s.operation(planted.Unknown), "as", "not_executed", "because", "x")
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
		a := s.post("resolve", form, header...)
		assert.Equal(t, http.StatusForbidden, a.StatusCode, header)
	}
	assert.Equal(t, journal.StateUnknown, s.operation(planted.Unknown).State)
	assert.Equal(t, http.StatusSeeOther, s.post("resolve", form, "Sec-Fetch-Site", "same-origin").StatusCode)
}

// A request for another host's name is refused, since a page elsewhere may have its own name resolve to this machine.
func TestHosts(t *testing.T) {
	s := open(t, "/", func(o *console.Options) { o.Hosts = []string{"localhost", "127.0.0.1", "::1"} })
	for host, want := range map[string]int{"localhost:80": 200, "127.0.0.1": 200, "[::1]:9": 200, "rebound.example": 421, "localhost.evil.example:80": 421} {
		req, err := http.NewRequest(http.MethodGet, s.URL+"/", nil)
		require.NoError(t, err)
		req.Host = host
		assert.Equal(t, want, s.do(req).StatusCode, host)
	}
}

func TestResolve(t *testing.T) {
	s := open(t, "/", nil)
	op := s.operation(planted.Unknown)
	t.Run("required fields", func(t *testing.T) {
		for name, form := range map[string]url.Values{
			"a reason": seenOf(op, "as", "executed"), "an outcome": seenOf(op, "because", "x"), "a known one": seenOf(op, "as", "hold", "because", "x"),
			"the version that was seen": {"h": {fmt.Sprint(op.Handle)}, "as": {"executed"}, "because": {"x"}},
		} {
			a := s.post("resolve", form)
			assert.Equal(t, http.StatusBadRequest, a.StatusCode, name)
			assert.Contains(t, a.text, "Nothing was done")
		}
	})
	t.Run("a stale tab", func(t *testing.T) {
		form := seenOf(op, "as", "not_executed", "because", "x")
		form.Set("claim", "0")
		a := s.post("resolve", form)
		assert.Equal(t, http.StatusConflict, a.StatusCode)
		assert.Contains(t, a.text, "has changed")
		assert.Contains(t, a.text, "claim 1")
		assert.Equal(t, journal.StateUnknown, s.operation(planted.Unknown).State)
	})
	t.Run("sent again only if it will not be anyway", func(t *testing.T) {
		a := s.post("resolve", seenOf(s.operation(planted.Closing), "as", "send_again", "because", "x"))
		assert.Equal(t, http.StatusConflict, a.StatusCode)
		assert.NotContains(t, s.get(fmt.Sprintf("operation?h=%d", s.operation(planted.Closing).Handle)).text, `value="send_again"`)
	})
	t.Run("in flight, or known", func(t *testing.T) {
		for _, id := range []string{planted.Held, planted.Completed} {
			a := s.post("resolve", seenOf(s.operation(id), "as", "not_executed", "because", "x"))
			assert.Equal(t, http.StatusConflict, a.StatusCode, id)
		}
	})
	t.Run("said, by whom and why", func(t *testing.T) {
		a := s.post("resolve", seenOf(op, "as", "executed", "because", "the dashboard shows ch_9"))
		require.Equal(t, http.StatusSeeOther, a.StatusCode)
		now := s.operation(planted.Unknown)
		assert.Equal(t, journal.StateCompleted, now.State)
		assert.Equal(t, "ann", now.Resolved.By)
		assert.NotContains(t, a.Header.Get("Location"), "/", "it is relative, so that it works under a prefix")
		page := s.get(a.Header.Get("Location")).text
		assert.Contains(t, page, "Your decision is recorded.")
		assert.Contains(t, page, "the dashboard shows ch_9")
	})
	t.Run("sent again, under another key", func(t *testing.T) {
		long := s.operation(planted.Long)
		require.Equal(t, http.StatusSeeOther, s.post("resolve", seenOf(long, "as", "send_again", "because", "the ledger has none")).StatusCode)
		now := s.operation(planted.Long)
		assert.Equal(t, journal.StatePending, now.State)
		assert.NotEqual(t, long.Key, now.Key)
	})
	t.Run("cancelled", func(t *testing.T) {
		assert.Equal(t, http.StatusConflict, s.post("cancel", seenOf(s.operation(planted.Closing), "because", "x")).StatusCode)
		ref := journal.Ref{Scope: planted.Scope, ID: planted.Unsent}
		unsent, err := s.journal.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, http.StatusSeeOther, s.post("cancel", seenOf(unsent, "because", "x")).StatusCode)
		unsent, err = s.journal.Get(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, journal.StateCancelled, unsent.State)
	})
}

func TestFlows(t *testing.T) {
	s := open(t, "/", nil)
	named := func(id string) url.Values {
		f, err := s.journal.GetFlow(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		form := url.Values{"name": {id}, "h": {fmt.Sprint(f.Handle)}, "claim": {fmt.Sprint(f.Claim)}}
		page := s.get("flow?name=" + id).text
		for field := range form {
			assert.Contains(t, page, fmt.Sprintf(`name="%s" value="%s"`, field, html.EscapeString(form.Get(field))))
		}
		return form
	}
	for field, status := range map[string]int{"claim": http.StatusConflict, "h": http.StatusConflict} {
		for _, path := range []string{"retry", "giveup"} {
			stale := named(planted.SetAside)
			stale.Set(field, "4711")
			stale.Set("because", "x")
			a := s.post(path, stale)
			assert.Equal(t, status, a.StatusCode, field)
			assert.Contains(t, a.text, "set aside now")
			stale.Del("claim")
			assert.Equal(t, http.StatusBadRequest, s.post(path, stale).StatusCode)
		}
	}
	require.Equal(t, http.StatusSeeOther, s.post("retry", named(planted.SetAside)).StatusCode)
	f, err := s.journal.GetFlow(t.Context(), journal.Ref{ID: planted.SetAside})
	require.NoError(t, err)
	assert.Equal(t, journal.FlowStateWaiting, f.State)
	assert.Equal(t, http.StatusBadRequest, s.post("giveup", named(planted.Waiting)).StatusCode)
	form := named(planted.Waiting)
	form.Set("because", "the customer left")
	require.Equal(t, http.StatusSeeOther, s.post("giveup", form).StatusCode)
	f, err = s.journal.GetFlow(t.Context(), journal.Ref{ID: planted.Waiting})
	require.NoError(t, err)
	assert.True(t, f.Undoing)
	assert.Equal(t, http.StatusNotFound, s.post("retry", url.Values{"name": {"none"}}).StatusCode)
}

// Findings come first, the urgent before the others. Each finding links to its subject.
func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a page looks for a tenth of a second
		text := open(t, "/", nil).get("").text
		at := func(s string) int {
			i := strings.Index(text, s)
			require.GreaterOrEqual(t, i, 0, s)
			return i
		}
		assert.Less(t, at(planted.Twice+" took effect more than once"), at("4 operations and flows need attention"))
		assert.Less(t, at("4 operations and flows need attention"), at("1 pending operation has less than a quarter of the window left"))
		assert.Less(t, at("less than a quarter"), at("3 operations may or may not have taken effect"))
		assert.Less(t, at("3 operations may or may not"), at("Where operations stand"))
	})
}

// A list is shown page by page. Each operation is on one page, also while others are begun.
func TestPaging(t *testing.T) {
	s := open(t, "/", nil)
	session, err := s.journal.Join(t.Context())
	require.NoError(t, err)
	begin := func(n int) {
		_, err := s.journal.Apply(t.Context(), machine.Event{
			Kind: machine.EventBegin, Ref: journal.Ref{ID: fmt.Sprintf("page-%03d", n)}, At: time.Now(), Session: session.ID(), Asker: int64(n + 1000),
			Intent: &machine.Intent{Fingerprint: "f", Request: journal.Request{Method: "POST", URL: "https://example.com"}},
		})
		require.NoError(t, err)
	}
	for n := range 120 {
		begin(n)
	}
	for _, order := range []string{"", "&order=oldest"} {
		counts := map[string]int{}
		path := "operations?state=in_flight" + order
		for page := 0; path != ""; page++ {
			require.Less(t, page, 10)
			text := s.get(path).text
			for _, name := range regexp.MustCompile(`page-\d{3}`).FindAllString(text, -1) {
				counts[name]++
			}
			path = ""
			if next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(text); next != nil {
				path = html.UnescapeString(next[1])
			}
			if page == 0 && order == "" {
				begin(500)
			}
		}
		for n := range 120 {
			assert.Equal(t, 1, counts[fmt.Sprintf("page-%03d", n)], n)
		}
	}
	require.NoError(t, session.End(t.Context()))
}

func TestFind(t *testing.T) {
	s := open(t, "/", nil)
	a := s.get("find?name=" + url.QueryEscape(planted.Unsent) + "&scope=" + planted.Scope)
	require.Equal(t, http.StatusSeeOther, a.StatusCode)
	assert.Contains(t, s.get(a.Header.Get("Location")).text, planted.Unsent)
	assert.Equal(t, http.StatusNotFound, s.get("find?name="+url.QueryEscape(planted.Unsent)).StatusCode)
}

// Counts are sent as they change, to at most 32 pages.
func TestEvents(t *testing.T) {
	s := open(t, "/", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listen := func() *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/events", nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	first := listen()
	assert.Equal(t, "text/event-stream", first.Header.Get("Content-Type"))
	lines := bufio.NewScanner(first.Body)
	next := func() string {
		for lines.Scan() {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				return data
			}
		}
		return ""
	}
	assert.Contains(t, next(), `"unknown":"3"`)
	_, err := s.journal.Apply(t.Context(), machine.Event{
		Kind: machine.EventResolve, Ref: journal.Ref{ID: planted.Unknown}, At: time.Now(), Resolution: journal.Executed, Claim: 1, Cause: "a test", By: "ann",
	})
	require.NoError(t, err)
	for told := next(); !strings.Contains(told, `"unknown":"2"`); told = next() {
		require.NotEmpty(t, told)
	}
	for range 31 {
		require.Equal(t, http.StatusOK, listen().StatusCode)
	}
	assert.Equal(t, http.StatusServiceUnavailable, listen().StatusCode)
}

// A console over a file that is opened to be read alone shows everything, and needs no client.
func TestOverAFileReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	session, err := planted.Plant(t.Context(), j, time.Now())
	require.NoError(t, err)
	require.NoError(t, session.End(t.Context()))
	require.NoError(t, j.Close())
	only, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
	require.NoError(t, err)
	h, err := console.New(console.Options{Journal: only, Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil }})
	require.NoError(t, err)
	for _, path := range []string{"/", "/operations", "/operation?h=1", "/flows"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, http.StatusOK, w.Code, path)
	}
	require.NoError(t, only.Close())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/operations", nil))
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.NotContains(t, w.Body.String(), "sqlite")
}

// The program in docs/console.md is compiled and run as an example.
func TestTheDocumentShowsTheExample(t *testing.T) {
	doc, err := os.ReadFile("../docs/console.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(doc), "```text\n")
	code, _, _ = strings.Cut(code, "```")
	require.Contains(t, code, "WWW-Authenticate")
	assert.Contains(t, string(example), code)
}

// An unknown operation is never resent, so its page shows no resend time. Its evidence is a sentence.
func TestUnknownOperationShowsNoResendTime(t *testing.T) {
	s := open(t, "/", nil)
	at := func(name string) string {
		op, err := s.journal.Get(t.Context(), journal.Ref{ID: name})
		require.NoError(t, err)
		return s.get(fmt.Sprint("operation?h=", op.Handle)).text
	}
	assert.NotContains(t, at(planted.Unknown), "resent until")
	assert.Contains(t, at(planted.Unknown), "A look-up could not tell; two objects may be this one")
	assert.Contains(t, at(planted.Closing), "resent until")
}

// Flows are listed newest first, and a flow's page has its error once.
func TestFlowsAreListedNewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a page looks for a tenth of a second
		s := open(t, "/", nil)
		text := s.get("flows").text
		assert.Less(t, strings.Index(text, planted.Waiting), strings.Index(text, planted.SetAside))
		assert.Equal(t, 1, strings.Count(s.get("flow?name="+planted.SetAside).text, "step ship: no stock"))
	})
}

// A flow below an inbound key shows that key, shortened. The key finds the flow and its steps.
func TestFlowsAreFoundByTheInboundKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a page looks for a tenth of a second
		s := open(t, "/", nil)
		session, err := s.journal.Join(t.Context())
		require.NoError(t, err)
		for _, key := range []string{"caller-key-0001", "caller-key-0002"} {
			ref := journal.Ref{Scope: "tenant-9", Parent: seam.Inbound + key, ID: "fulfil"}
			begun, err := s.journal.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: ref, At: time.Now(), Session: session.ID(),
				Key: "key-of-" + key, Function: journal.FlowFunction{Name: "fulfil", Version: 1}, InputDigest: "v1:" + key})
			require.NoError(t, err)
			_, err = s.journal.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{Scope: ref.Scope, Parent: seam.ParentOf(&begun.Flow), ID: "notify"},
				At: time.Now(), Session: session.ID(), Asker: 1, Intent: &machine.Intent{Fingerprint: "f", Flow: journal.FlowRef{ID: ref.ID, Parent: ref.Parent, Handle: begun.Flow.Handle}}})
			require.NoError(t, err)
		}
		count := func(path, link string) int { return strings.Count(s.get(path).text, `href="`+link) }
		assert.Equal(t, 4, count("flows", "flow?"))
		assert.Equal(t, 1, count("flows?key=caller-key-0002", "flow?"))
		assert.Equal(t, 2, count("flows?name=fulfil", "flow?"))
		assert.Equal(t, 1, count("operations?key=caller-key-0002", "operation?"))
		assert.Equal(t, 2, count("operations?flow=fulfil", "operation?"))
		assert.Contains(t, s.get("operations?flow=fulfil").text, "of <bdi>fulfil #")
		one := regexp.MustCompile(`href="(flow\?[^"]*)"`).FindStringSubmatch(s.get("flows?key=caller-key-0002").text)
		require.NotNil(t, one)
		flow := s.get(html.UnescapeString(one[1])).text
		assert.Contains(t, flow, "caller-…")
		steps := regexp.MustCompile(`href="(operations\?flow=[^"]*)"`).FindStringSubmatch(flow)
		require.NotNil(t, steps)
		assert.Equal(t, 1, count(html.UnescapeString(steps[1]), "operation?"))
	})
}
