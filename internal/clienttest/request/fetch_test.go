package request_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
)

// donor answers a repeated request with a pointer to the first request's resource, which has to be fetched.
func donor(adjust ...func(*providers.Endpoint)) providers.Provider {
	return own(append([]func(*providers.Endpoint){func(e *providers.Endpoint) {
		e.FetchPointer = true
		e.Rules = append([]providers.Rule{
			{Status: 409, Field: "error.reason", Equals: "done", Verdict: providers.AlreadyDone, Pointer: "error.id"},
			{Status: 404, Verdict: providers.Misuse},
		}, e.Rules...)
	}}, adjust...)...)
}

func done(id string) reply { return says(409, `{"error":{"reason":"done","id":"`+id+`"}}`) }

// If the contract says so, the resource that an answer points to is fetched.
func TestFetchOfALocation(t *testing.T) {
	const conflict, resource = `{"error":{"reason":"done","id":"PM1"}}`, `{"id":"PM1","amount":1}`
	for _, tc := range []struct {
		name   string
		replay reply
		status int
		body   string
	}{
		{"it is there", says(200, resource, "X-Of", "the resource"), 200, resource},
		{"it is not", says(404, `{}`), 409, conflict},
		{"it moved", says(302, "", "Location", "https://own.example/x"), 409, conflict},
		{"the connection fails", loses(), 409, conflict},
		{"it comes cut short", cuts(200, resource), 409, conflict},
		{"it comes cut short, and only the connection's end was its end", streams(200, -1, func() io.Reader { return strings.NewReader(resource[:9]) }), 409, conflict},
		{"it is over the limit", says(200, `"`+strings.Repeat("x", 200)+`"`), 409, conflict},
		{"nothing comes in the attempt's time", hangs(), 409, conflict},
	} {
		virtual(t, tc.name, func(t *testing.T) {
			l := (&line{}).Then(loses(), done("PM1"), tc.replay)
			var attempts int
			p := start(t, l, onceward.Config{
				Providers:       []providers.Provider{donor()},
				MaxResponseBody: 100,
				AttemptTimeout:  10 * time.Second,
				Authorize: func(r *http.Request) error {
					r.Header.Set("Authorization", "Bearer b")
					return nil
				},
				Trace: &onceward.Trace{AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) { attempts++ }},
			})
			out := p.Ask(named(t, "order-7"), to(http.MethodPost, orders+"/?v=2"), body(`{"n":1}`), jsonType,
				with("Accept-Version", "2"), with("X-Api-Key", "s3cret"))
			require.NoError(t, out.Err)
			assert.Equal(t, tc.status, out.Status)
			assert.Equal(t, tc.body, out.Body)
			assert.Equal(t, "PM1", out.Op.Answer.Pointer)
			assert.Equal(t, 2, attempts)

			got := l.Sent()
			require.Len(t, got, 3)
			get := got[2]
			assert.Equal(t, http.MethodGet, get.Method)
			assert.Equal(t, orders+"/PM1?v=2", get.URL)
			assert.Empty(t, get.Body)
			assert.Empty(t, get.Key, "the GET has the key")
			assert.Empty(t, get.Header.Get("Content-Type"))
			assert.Equal(t, "2", get.Header.Get("Accept-Version"))
			assert.Equal(t, "s3cret", get.Header.Get("X-Api-Key"))
			assert.Equal(t, "Bearer b", get.Header.Get("Authorization"))

			require.Len(t, p.Everything(), 1)
			answer := p.Recorded(onceward.Ref{ID: "order-7"}).Answer
			assert.Equal(t, tc.status, answer.Status)
			assert.Equal(t, "PM1", answer.Pointer)
			assert.False(t, answer.Refused)

			again := p.Ask(named(t, "order-7"), to(http.MethodPost, orders+"/?v=2"), body(`{"n":1}`), jsonType, with("X-Api-Key", "s3cret"))
			require.NoError(t, again.Err)
			assert.Equal(t, tc.body, again.Body, "the replay is another answer")
			assert.Len(t, l.Sent(), 3)
		})
	}
}

// The fetched resource is read by the rules of any answer.
func TestFetchOfAnotherServersAnswer(t *testing.T) {
	const conflict, resource = `{"error":{"reason":"done","id":"PM1"}}`, `{"id":"PM1","amount":1}`
	for _, row := range []struct {
		name   string
		answer reply
		taken  bool
	}{
		{"the resource", says(200, resource), true},
		{"the resource, in a coding", says(200, coded(t, "gzip", resource), "Content-Encoding", "gzip"), true},
		{"a page", says(200, "<html>sign in</html>", "Content-Type", "text/html"), false},
		{"a page of JSON's type", says(200, "<!DOCTYPE html>", "Content-Type", "application/json"), false},
		{"a page, in a coding", says(203, coded(t, "zstd", "<html>"), "Content-Type", "", "Content-Encoding", "zstd"), false},
		{"text", says(200, "ok", "Content-Type", "text/plain"), false},
		{"nothing", says(200, "", "Content-Type", "application/json"), false},
		{"a failure", says(200, `{"failed":true}`), false},
		{"a failure, in a coding that is not known", says(200, "\x1b", "Content-Encoding", "br"), false},
		{"a part of a coding", says(200, coded(t, "gzip that breaks off", resource), "Content-Encoding", "gzip"), false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(loses(), done("PM1"), row.answer)
			table := donor(func(e *providers.Endpoint) {
				e.Rules = append([]providers.Rule{{Status: 200, Field: "failed", Verdict: providers.Indeterminate}}, e.Rules...)
			})
			table.Answers = []string{"application/json"}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{table}})
			out := p.Ask(named(t, "order-7"), to(http.MethodPost, orders), body(`{}`), jsonType, with("Accept-Encoding", "gzip, zstd, br"))
			require.NoError(t, out.Err)
			require.Len(t, l.Sent(), 3)
			answer := p.Recorded(onceward.Ref{ID: "order-7"}).Answer
			assert.Equal(t, "PM1", answer.Pointer)
			assert.Equal(t, row.taken, answer.Status == 200)
			if !row.taken {
				assert.Equal(t, conflict, out.Body)
				assert.Equal(t, conflict, string(answer.Body))
			}
		})
	}
}

// A pointer that is no valid name is not fetched.
func TestFetchIgnoresInvalidLocations(t *testing.T) {
	for _, id := range []string{"..", ".", "../../admin", `a\\b`, "a;b"} {
		virtual(t, id, func(t *testing.T) {
			l := (&line{}).Then(loses(), done(id))
			p := start(t, l, onceward.Config{Providers: []providers.Provider{donor()}})
			out := p.Ask(named(t, "order-7"), to(http.MethodPost, orders), body(`{}`), jsonType)
			require.NoError(t, out.Err)
			assert.Equal(t, 409, out.Status)
			assert.Len(t, l.Sent(), 2)
		})
	}
	virtual(t, "escaped", func(t *testing.T) {
		l := (&line{}).Then(loses(), done("a b?c#d%2e"))
		p := start(t, l, onceward.Config{Providers: []providers.Provider{donor()}})
		require.NoError(t, p.Ask(named(t, "order-7"), to(http.MethodPost, orders), body(`{}`), jsonType).Err)
		require.Len(t, l.Sent(), 3)
		assert.Equal(t, orders+"/a%20b%3Fc%23d%252e", l.Sent()[2].URL)
	})
}

// Resume fetches, too.
func TestFetchInResume(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		var settled []string
		cfg := onceward.Config{Journal: j, Providers: []providers.Provider{donor()}, Backoff: quick,
			Outcomes: &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
				settled = append(settled, fmt.Sprintf("%d %s %s", op.Answer.Status, op.Answer.Pointer, op.Answer.Body))
				return nil
			}}}
		first := start(t, l, cfg)
		l.Then(doing(func() { first.Crash() }, loses()), done("PM1"), says(200, `{"id":"PM1"}`))
		require.Error(t, first.Ask(named(t, "order-7"), to(http.MethodPost, orders), body(`{}`), jsonType).Err)
		_, err := start(t, l, cfg).Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{`200 PM1 {"id":"PM1"}`}, settled)
	})
}

func TestFetchKeepsEscapedPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(loses(), done("P 1%"), says(200, `{}`))
		p := start(t, l, onceward.Config{Providers: []providers.Provider{donor()}})
		require.NoError(t, p.Ask(named(t, "order-7"), to(http.MethodPost, "https://own.example/a%40b/orders"), body(`{"n":1}`), jsonType).Err)
		assert.Equal(t, "https://own.example/a%40b/orders/P%201%25", l.Sent()[2].URL)
	})
}

// A fetched resource may be as large as an answer may be. Nothing is fetched without a credential, or for an answer
// that is itself too large.
func TestFetchWithinTheLimits(t *testing.T) {
	const limit = 100
	full := `"` + strings.Repeat("x", limit-2) + `"`
	large := `{"error":{"reason":"done","id":"PM1"},"more":` + full + `}`
	for name, row := range map[string]struct {
		answer reply
		fails  bool // Config.Authorize, for the GET
		body   string
		sent   int
	}{
		"it has just the size":    {done("PM1"), false, full, 3},
		"the answer is too large": {says(409, large), false, large, 2},
		"there is no credential":  {done("PM1"), true, `{"error":{"reason":"done","id":"PM1"}}`, 2},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(loses(), row.answer, says(200, full))
			p := start(t, l, onceward.Config{Providers: []providers.Provider{donor()}, MaxResponseBody: limit, Authorize: func(r *http.Request) error {
				if row.fails && r.Method == http.MethodGet {
					return errReset
				}
				return nil
			}})
			out := p.Ask(named(t, "order-7"), to(http.MethodPost, orders), body(`{"n":1}`), jsonType)
			require.NoError(t, out.Err)
			assert.Equal(t, row.body, out.Body)
			assert.Equal(t, "PM1", out.Op.Answer.Pointer)
			assert.Len(t, l.Sent(), row.sent)
		})
	}
}

// A fetch leaves neither its connection nor its context behind.
func TestFetchLeavesNothingBehind(t *testing.T) {
	for _, status := range []int{200, 404} {
		virtual(t, fmt.Sprint(status), func(t *testing.T) {
			var ctx context.Context
			left := &leftBody{}
			l := (&line{}).Then(loses(), done("PM1"), reply{Answer: func(r *http.Request) (*http.Response, error) {
				ctx = r.Context()
				resp, err := says(status, `{}`).Answer(r)
				left.Reader = resp.Body
				resp.Body = left
				return resp, err
			}})
			p := start(t, l, onceward.Config{Providers: []providers.Provider{donor()}})
			require.NoError(t, p.Ask(named(t, "order-7"), to(http.MethodPost, orders), body(`{"n":1}`), jsonType).Err)
			assert.True(t, left.closed)
			assert.Error(t, ctx.Err())
		})
	}
}
