package request_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// A redirect to another origin takes neither key nor body there.
func TestRedirectToAnotherOrigin(t *testing.T) {
	for _, status := range []int{300, 301, 302, 303, 307, 308} {
		t.Run(strconv.Itoa(status)+", which says nothing", func(t *testing.T) {
			there := newRawServer(t, func(_ *rawServer, conn net.Conn, _ int) bool { return writes(conn, rawAnswer) })
			here := newRawServer(t, func(_ *rawServer, conn net.Conn, _ int) bool {
				return writes(conn, "HTTP/1.1 "+strconv.Itoa(status)+" Elsewhere\r\nLocation: "+there.url()+"\r\nContent-Length: 0\r\n\r\n")
			})
			p := start(t, transportOf(t), onceward.Config{Providers: anywhere()})
			for range 2 {
				out := p.Ask(named(t, "order-1"), to(http.MethodPost, here.url()), with("Authorization", "Bearer x"))
				require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
				if out.Status != 0 {
					assert.Equal(t, status, out.Status)
					assert.Equal(t, there.url(), out.Header.Get("Location"))
				}
			}
			assert.Len(t, here.requests(), 1)
			assert.Empty(t, there.requests())
		})
		t.Run(strconv.Itoa(status)+", which is the outcome", func(t *testing.T) {
			there := newRawServer(t, func(_ *rawServer, conn net.Conn, _ int) bool { return writes(conn, rawAnswer) })
			here := newRawServer(t, func(_ *rawServer, conn net.Conn, _ int) bool {
				return writes(conn, "HTTP/1.1 "+strconv.Itoa(status)+" Elsewhere\r\nLocation: "+there.url()+"\r\nContent-Length: 0\r\n\r\n")
			})
			p := start(t, transportOf(t), onceward.Config{Providers: anywhere(redirectIsFinal)})
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, here.url()), with("Authorization", "Bearer x"))
			require.Len(t, here.requests(), 1)
			assert.Equal(t, http.MethodPost, here.requests()[0].Method)
			assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: "order-1"}).State)
			if status == 307 || status == 308 {
				require.ErrorIs(t, out.Err, onceward.ErrRedirected)
				assert.Empty(t, there.requests())
			}
			for _, r := range there.requests() {
				assert.Equal(t, http.MethodGet, r.Method, "what http.Client itself makes of it")
				assert.Empty(t, r.Header.Get("Idempotency-Key"))
				assert.Empty(t, r.Body)
			}
			// Another request by the same name sends the operation nowhere.
			p.Ask(named(t, "order-1"), to(http.MethodPost, here.url()), with("Authorization", "Bearer x"))
			assert.Len(t, here.requests(), 1)
		})
	}
}

// A redirect within the origin stays the same request.
func TestRedirectWithinTheOrigin(t *testing.T) {
	for _, status := range []int{307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			srv := newRawServer(t, func(s *rawServer, conn net.Conn, _ int) bool {
				if len(s.requests()) == 1 {
					return writes(conn, "HTTP/1.1 "+strconv.Itoa(status)+" Moved\r\nLocation: /moved\r\nContent-Length: 0\r\n\r\n")
				}
				return writes(conn, rawAnswer)
			})
			var asked atomic.Int32
			p := start(t, nil, onceward.Config{Providers: anywhere(), HTTPClient: &http.Client{
				Transport:     transportOf(t),
				CheckRedirect: func(*http.Request, []*http.Request) error { asked.Add(1); return nil },
			}})
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, srv.url()), with("Authorization", "Bearer x"))
			require.NoError(t, out.Err)
			got := srv.requests()
			require.Len(t, got, 2)
			got[1].Conn = got[0].Conn
			assert.Equal(t, got[0], got[1], "method, body, key and credential")
			assert.Equal(t, onceward.StateCompleted, out.Op.State)
			assert.Zero(t, asked.Load(), "it is the operation's own affair")
		})
	}
}

// An operation is redirected in its origin six times at most.
func TestRedirectsSixTimesAtMost(t *testing.T) {
	virtual(t, "however long the provider goes on", func(t *testing.T) {
		l := &line{}
		for range 50 {
			l.Then(says(308, "", "Location", "/v1/charges"))
		}
		p := start(t, l, onceward.Config{Backoff: once})
		p.Ask(named(t, "order-1"))
		assert.Len(t, l.Sent(), 6)
	})
}

// A redirect that can't be followed is the answer.
func TestRedirectNotFollowedIsTheAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		answer    reply
		authorize func(*http.Request) error
	}{
		"it has no Location":  {says(307, ""), nil},
		"it is not encrypted": {says(307, "", "Location", "http://own.example/moved"), nil},
		"with a user":         {says(307, "", "Location", "https://ada@own.example/moved"), nil},
		"Authorize fails there": {says(307, "", "Location", "/moved"), func(r *http.Request) error {
			if r.URL.Path == "/moved" {
				return errors.New("not there")
			}
			return nil
		}},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(row.answer)
			hc := &http.Client{Transport: l, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			p := start(t, l, onceward.Config{HTTPClient: hc, Providers: []providers.Provider{own(redirectIsFinal)}, Authorize: row.authorize})
			out := p.Ask(named(t, invoice), to("POST", ownURL))
			require.NoError(t, out.Err)
			assert.Equal(t, 307, out.Status)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// A redirect's body is closed, and its connection with it.
func TestRedirectsBodyIsClosed(t *testing.T) {
	closed := 0
	l := (&line{}).Then(reply{Answer: func(r *http.Request) (*http.Response, error) {
		resp, err := says(307, "", "Location", "/moved").Answer(r)
		resp.Body = closing(resp.Body, func() { closed++ })
		return resp, err
	}})
	p := start(t, l, onceward.Config{})
	require.NoError(t, p.Ask(named(t, invoice)).Err)
	assert.Len(t, l.Sent(), 2)
	assert.Equal(t, 1, closed)
}

// The claim is read before each attempt but the first.
func TestAttemptOfAClaimThatCantBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &unread{Store: memory.New()}
		l := (&line{}).Then(says(200, paid), unavailable)
		p := start(t, l, onceward.Config{Journal: j})
		j.times.Store(1)
		require.NoError(t, p.Ask(named(t, "order-1")).Err)
		require.ErrorIs(t, p.Ask(named(t, "order-2")).Err, errDiskFull)
		assert.Len(t, l.Sent(), 2)
	})
}

// A call whose NotAfter passes while it is recorded makes no attempt.
func TestAttemptThatIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		l := &line{}
		p := start(t, l, onceward.Config{Journal: slowToBegin{memory.New(), time.Second}, Trace: &onceward.Trace{
			AttemptStarted: func(ctx context.Context, _ onceward.Operation, _ int) context.Context { made++; return ctx },
		}})
		out := p.Ask(onceward.WithNotAfter(named(t, invoice), time.Now().Add(time.Second/2)))
		require.ErrorIs(t, out.Err, onceward.ErrNotSent)
		assert.Empty(t, l.Sent())
		assert.Zero(t, made)
	})
}

// A refusal that registers no key does not begin the resend window. An attempt that was not sent does not either.
func TestRefusalBeginsNoWindow(t *testing.T) {
	for name, first := range map[string]reply{"after what was not sent": refuses(), "after what may have been": loses()} {
		virtual(t, name, func(t *testing.T) {
			p := start(t, (&line{}).Then(first, says(429, "")), onceward.Config{Backoff: backoff.Policy{MaxAttempts: 2}, Providers: []providers.Provider{own(func(e *providers.Endpoint) {
				e.RefusalsRegisterNoKey = true
			})}})
			require.ErrorIs(t, p.Ask(named(t, invoice), to("POST", ownURL)).Err, onceward.ErrPending)
			assert.Equal(t, first.Unsent, p.Recorded(onceward.Ref{ID: invoice}).FirstSentAt.IsZero())
		})
	}
}

// A transport's answer without a body is one, as for net/http's own client.
func TestAnswerWithoutABody(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := start(t, bodiless{}, onceward.Config{Providers: []providers.Provider{own()}})
		out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
		require.NoError(t, out.Err)
		assert.Equal(t, 200, out.Status)
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: invoice}).State)
	})
}

type bodiless struct{}

func (bodiless) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Request: req}, nil
}

// A caller that changes its request's URL during the call changes no later attempt.
func TestEachAttemptGoesToTheRecordedURL(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(refuses(), unavailable)
		var req *http.Request
		p := start(t, l, onceward.Config{Trace: &onceward.Trace{
			AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) {
				req.URL.Host, req.URL.Path, req.URL.RawQuery = "fallback.example", "/v1/payments", "more=1"
			},
		}})
		out := p.Ask(named(t, "order-1"), func(r *http.Request) { req = r })
		require.NoError(t, out.Err)
		require.Len(t, l.Sent(), 2)
		for _, sent := range l.Sent() {
			assert.Equal(t, chargeURL, sent.URL)
		}
		assert.Equal(t, chargeURL, out.Op.URL)
	})
}
