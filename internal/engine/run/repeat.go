package run

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// repeater makes one run's further attempts by go-retryablehttp, which waits before each. Most runs need none.
// Besides, only sendSafe uses the library, for the policy alone. Package onceward knows the library's types, to refuse
// them.
//
// The library repeats one request as long as a policy says so, in callbacks. Here each attempt is another request, made
// from the frozen one. judge decides whether there is another attempt, since judge knows more than an error and a
// response. So the library gets a stand-in request that is never sent, and a transport that makes an attempt instead.
// The library gets retries without end, and callbacks that repeat the attempt's verdict. The first attempt is over by
// then, and is the transport's first result. The library closes each response before another attempt, and leaves the
// last response as it is.
//
// Each run has its own repeater, since the callbacks are the run's. The transport has no CloseIdleConnections: the
// pool of connections is the caller's.
type repeater struct {
	client  retryablehttp.Client
	http    http.Client
	request retryablehttp.Request

	run   *Run
	first *try // until the library has asked for it
	last  try
}

// try is an attempt's result: the transport's results, whether there is another attempt, and the pause before
// it.
type try struct {
	resp  *http.Response
	err   error
	again bool
	pause time.Duration
}

// repeat goes on after a first attempt: it pauses and makes attempts until there is no other or the pauses end.
func (r *Run) repeat(first try) {
	e := &repeater{run: r, first: &first}
	e.http = http.Client{Transport: e, CheckRedirect: answerRedirect}
	e.client = retryablehttp.Client{
		HTTPClient:   &e.http,
		RetryMax:     math.MaxInt,
		CheckRetry:   func(context.Context, *http.Response, error) (bool, error) { return e.last.again, nil },
		Backoff:      func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return e.last.pause },
		ErrorHandler: func(*http.Response, error, int) (*http.Response, error) { return nil, errEnded },
	}
	e.request.Request = (&http.Request{Method: r.op.Request.Method, URL: r.target, Header: noHeader}).WithContext(&r.pauses)
	_, _ = e.client.Do(&e.request) // its results are known from the attempt already
}

// next makes an attempt, and says whether and when there is another. go-retryablehttp makes the pauses, and calls it
// after each: see repeat.go.
func (r *Run) next() try {
	// Attempt: the frozen request is composed anew (wire.Composer) and sent.
	resp, err := r.makeAttempt()

	// Judge: the answer's meaning by the provider's table, and then whether there is
	// another attempt by the resend rule.
	r.classify()
	r.judge()
	r.stats.underWay = false
	return try{resp: resp, err: err, again: r.end == nil, pause: r.wait}
}

// RoundTrip stands in for the network. It makes the next attempt, and does not send the given request.
func (e *repeater) RoundTrip(*http.Request) (*http.Response, error) {
	if first := e.first; first != nil {
		e.first, e.last = nil, *first
	} else {
		e.last = e.run.next()
	}
	return e.last.resp, e.last.err
}

// noHeader is the empty header for the request that is never sent. No code writes to it.
var noHeader = http.Header{}

func answerRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
