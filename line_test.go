package onceward_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// line is a provider in memory, for tests in virtual time: it gives scripted
// replies, and calls the trace hooks that net/http's own transport calls.
type line struct {
	mu     sync.Mutex
	script []reply
	rest   *reply // once the script is over; nil: it succeeds
	got    []sent
	now    int
	most   int // at the same time
}

// sent is a request as it came over the line.
type sent struct {
	Method, URL, Body, Key string
	Header                 http.Header
	At                     time.Time
}

// reply is what becomes of one request.
type reply struct {
	unsent bool // no connection: the request never gets as far as the line
	answer func(*http.Request) (*http.Response, error)
}

const paid = `{"id":"ch_1"}`

func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	r := l.arrive(req, string(body))
	defer l.leave()
	trace := httptrace.ContextClientTrace(req.Context())
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(req.URL.Host)
	}
	if !r.unsent && trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	return r.answer(req)
}

func (l *line) arrive(req *http.Request, body string) reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	l.most = max(l.most, l.now)
	r := says(200, paid)
	if l.rest != nil {
		r = *l.rest
	}
	if len(l.script) > 0 {
		r, l.script = l.script[0], l.script[1:]
	}
	if !r.unsent {
		l.got = append(l.got, sent{
			Method: req.Method, URL: req.URL.String(), Body: body, Key: req.Header.Get("Idempotency-Key"),
			Header: req.Header.Clone(), At: time.Now(),
		})
	}
	return r
}

func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now--
}

// then appends to the script.
func (l *line) then(replies ...reply) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.script = append(l.script, replies...)
	return l
}

// always replies the same once the script is over.
func (l *line) always(r reply) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = &r
	return l
}

// sent returns the requests that came over the line.
func (l *line) sent() []sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]sent(nil), l.got...)
}

// keys returns the keys of the requests that came over the line.
func (l *line) keys() (keys []string) {
	for _, s := range l.sent() {
		keys = append(keys, s.Key)
	}
	return keys
}

// says answers; the header is given as name, value, name, value.
func says(status int, body string, header ...string) reply {
	return streams(status, int64(len(body)), func() io.Reader { return strings.NewReader(body) }, header...)
}

func streams(status int, length int64, body func() io.Reader, header ...string) reply {
	return reply{answer: func(req *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: h, ContentLength: length, Body: io.NopCloser(body()), Request: req,
		}, nil
	}}
}

// cuts ends the connection within the body.
func cuts(status int, body string, header ...string) reply {
	return streams(status, int64(len(body)), func() io.Reader {
		return io.MultiReader(strings.NewReader(body[:len(body)/2]), brokenBody{})
	}, header...)
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

var errReset = errors.New("connection reset by peer")

// loses gives no answer, and nobody knows whether the request was executed.
func loses() reply {
	return reply{answer: func(*http.Request) (*http.Response, error) { return nil, errReset }}
}

// refuses gets no connection.
func refuses() reply {
	return reply{unsent: true, answer: func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }}
}

// hangs says nothing until the attempt is broken off.
func hangs() reply {
	return reply{answer: func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}}
}

// stalls sends a status line, and then nothing until the attempt is broken off.
func stalls() reply {
	return reply{answer: func(req *http.Request) (*http.Response, error) {
		resp, err := says(200, paid).answer(req)
		resp.Body = io.NopCloser(stalledBody{req.Context()})
		return resp, err
	}}
}

type stalledBody struct{ ctx context.Context }

func (b stalledBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// takes works for d before it gives r.
func takes(d time.Duration, r reply) reply {
	return reply{unsent: r.unsent, answer: func(req *http.Request) (*http.Response, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return r.answer(req)
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}}
}

// doing calls f while the request is at the provider, and then gives r.
func doing(f func(), r reply) reply {
	return reply{unsent: r.unsent, answer: func(req *http.Request) (*http.Response, error) {
		f()
		return r.answer(req)
	}}
}

// virtual runs a test in virtual time.
func virtual(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
