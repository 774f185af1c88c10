package oncetest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"testing/iotest"
	"time"
)

// Line is a provider in memory, for tests in virtual time. It gives scripted replies, and calls the trace hooks that
// net/http's own transport calls. The zero Line answers everything with [Paid]. It is safe for concurrent use.
type Line struct {
	mu     sync.Mutex
	script []Reply
	rest   *Reply // once the script is over; nil: it succeeds
	got    []Sent
	now    int
	most   int // at the same time
}

// Sent is a request as it came over the line.
type Sent struct {
	Method, URL, Body, Key string // Key is the header Idempotency-Key
	Header                 http.Header
	At                     time.Time
}

// Reply is one request's scripted end.
type Reply struct {
	Unsent bool // no connection: the request never gets as far as the line
	Answer func(*http.Request) (*http.Response, error)
}

// Paid is the body of an answer that reports success.
const Paid = `{"id":"ch_1"}`

// RoundTrip reads the request and gives the next reply.
func (l *Line) RoundTrip(req *http.Request) (*http.Response, error) {
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
	if !r.Unsent && trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	return r.Answer(req)
}

func (l *Line) arrive(req *http.Request, body string) Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	l.most = max(l.most, l.now)
	r := Says(200, Paid)
	if l.rest != nil {
		r = *l.rest
	}
	if len(l.script) > 0 {
		r, l.script = l.script[0], l.script[1:]
	}
	if !r.Unsent {
		l.got = append(l.got, Sent{
			Method: req.Method, URL: req.URL.String(), Body: body, Key: req.Header.Get("Idempotency-Key"),
			Header: req.Header.Clone(), At: time.Now(),
		})
	}
	return r
}

func (l *Line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now--
}

// Then appends to the script.
func (l *Line) Then(replies ...Reply) *Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.script = append(l.script, replies...)
	return l
}

// Instead replaces what is left of the script.
func (l *Line) Instead(replies ...Reply) *Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.script = replies
	return l
}

// Always replies the same once the script is over.
func (l *Line) Always(r Reply) *Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = &r
	return l
}

// Sent returns the requests that came over the line.
func (l *Line) Sent() []Sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Sent(nil), l.got...)
}

// Keys returns the keys of the requests that came over the line.
func (l *Line) Keys() (keys []string) {
	for _, s := range l.Sent() {
		keys = append(keys, s.Key)
	}
	return keys
}

// Descriptions returns the requested charges' descriptions, which follow description= in each body.
func (l *Line) Descriptions() (all []string) {
	for _, s := range l.Sent() {
		all = append(all, strings.TrimPrefix(s.Body, "description="))
	}
	return all
}

// Now returns how many requests are at the provider.
func (l *Line) Now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Most returns the most requests that were at the provider at the same time.
func (l *Line) Most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

// Says answers with status and body. The header is given as name, value, name, value.
func Says(status int, body string, header ...string) Reply {
	return Streams(status, int64(len(body)), func() io.Reader { return strings.NewReader(body) }, header...)
}

// Streams answers with a body that is read while it comes, of the given Content-Length.
func Streams(status int, length int64, body func() io.Reader, header ...string) Reply {
	return Reply{Answer: func(req *http.Request) (*http.Response, error) {
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

// Cuts ends the connection within the body.
func Cuts(status int, body string, header ...string) Reply {
	return Streams(status, int64(len(body)), func() io.Reader {
		return io.MultiReader(strings.NewReader(body[:len(body)/2]), BrokenBody)
	}, header...)
}

// BrokenBody is a body whose connection has ended.
var BrokenBody = iotest.ErrReader(io.ErrUnexpectedEOF)

// ErrReset is [Loses]'s error.
var ErrReset = errors.New("connection reset by peer")

// Loses returns a reply without an answer: the caller cannot know whether the request was executed.
func Loses() Reply {
	return Reply{Answer: func(*http.Request) (*http.Response, error) { return nil, ErrReset }}
}

// Refuses fails to get a connection.
func Refuses() Reply {
	return Reply{Unsent: true, Answer: func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }}
}

// Hangs returns a reply that does not come until the attempt is broken off.
func Hangs() Reply {
	return Reply{Answer: func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}}
}

// Stalls sends a status line, and then nothing until the attempt is broken off.
func Stalls() Reply {
	return Reply{Answer: func(req *http.Request) (*http.Response, error) {
		resp, err := Says(200, Paid).Answer(req)
		resp.Body = io.NopCloser(stalledBody{req.Context()})
		return resp, err
	}}
}

type stalledBody struct{ ctx context.Context }

func (b stalledBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// Takes works for d before it gives r.
func Takes(d time.Duration, r Reply) Reply {
	return Reply{Unsent: r.Unsent, Answer: func(req *http.Request) (*http.Response, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return r.Answer(req)
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}}
}

// Doing calls f while the request is at the provider, and then gives r.
func Doing(f func(), r Reply) Reply {
	return Reply{Unsent: r.Unsent, Answer: func(req *http.Request) (*http.Response, error) {
		f()
		return r.Answer(req)
	}}
}

// The answers of Stripe to a charge that Stripe refuses or cannot make.
var (
	Declined    = Says(402, `{"error":{"type":"card_error","code":"card_declined"}}`)
	InUse       = Says(409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, "Retry-After", "3")
	Misused     = Says(400, `{"error":{"type":"idempotency_error"}}`)
	WrongKey    = Says(401, `{"error":{"type":"invalid_request_error"}}`)
	Invalid     = Says(400, `{"error":{"type":"invalid_request_error","code":"parameter_missing"}}`)
	Frozen      = Says(500, `{"error":{"type":"api_error"}}`, "Idempotent-Replayed", "true")
	Limited     = Says(429, `{"error":{"type":"rate_limit"}}`, "Retry-After", "7")
	Unavailable = Says(503, `{"error":{"type":"api_error"}}`)
)
