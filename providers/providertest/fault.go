package providertest

import (
	"fmt"
	"net/http"
	"time"
)

// Fault is one request's failure. The zero Fault is none.
//
// HTTP/2 has no connection bytes to corrupt. A fault that ends the connection resets the stream instead,
// after as much of the body as the fault lets through.
type Fault struct {
	kind   kind
	bytes  int     // before a cut; negative: by part
	part   float64 // of the cut part
	delay  time.Duration
	status int
	header http.Header
	end    ending
}

type kind int

const (
	none kind = iota
	dropBefore
	dropAfter
	cut
	delayBefore
	delayAfter
	status
	cutRequest
	cutResponse
	malformedChunk
	wrongLength
	pageBefore
	pageAfter
	failAfter
	inform
	straggle
	noList
	unfiltered
	pageLoop
	emptyList
)

// ending is how a connection ends.
type ending int

const (
	byKind ending = iota // as usual for the kind of fault
	reset
	orderly
)

func (f Fault) ending(usual ending) ending {
	if f.end == byKind {
		return usual
	}
	return f.end
}

// None lets a request through, as a gap in a script.
func None() Fault { return Fault{} }

// DropBefore resets the connection before anything is executed.
func DropBefore() Fault { return Fault{kind: dropBefore} }

// DropAfter executes, and resets the connection instead of answering.
func DropAfter() Fault { return Fault{kind: dropAfter} }

// CutRequestAt reads at most n bytes of the request's body and resets the
// connection. Nothing is executed.
func CutRequestAt(n int) Fault { return Fault{kind: cutRequest, bytes: max(n, 0)} }

// CutAt executes and sends the headers with the whole body's Content-Length. After the first n bytes of the
// body, at most all but one, it closes the connection. An answer without a body is dropped.
func CutAt(n int) Fault { return Fault{kind: cut, bytes: max(n, 0)} }

// CutResponseAt executes, and closes the connection after the first n bytes of the HTTP/1.1 response, counted
// from its status line, at most all but one. Over HTTP/2 the stream is reset before the headers.
func CutResponseAt(n int) Fault { return Fault{kind: cutResponse, bytes: max(n, 0)} }

// MalformedChunk executes, and answers with a chunked body whose second chunk is invalid. Over HTTP/2 the
// stream is reset in the middle of the body.
func MalformedChunk() Fault { return Fault{kind: malformedChunk} }

// WrongLength executes, and answers with a Content-Length that exceeds the body by by bytes, or is smaller if by is
// negative. The server announces that the connection closes after the body, and closes the connection. A client cannot
// detect a smaller one: it takes the beginning of the body for the whole. Over HTTP/2 a larger one ends in a reset.
func WrongLength(by int) Fault { return Fault{kind: wrongLength, bytes: by} }

// Straggle reads the whole request, resets the connection, and executes d later on the server's clock, like a request
// delayed in a queue. The server does not reserve the key before that time, so Straggle repeats the request that used
// the key first. A server that is closed first never executes the request.
func Straggle(d time.Duration) Fault { return Fault{kind: straggle, delay: d} }

// DelayBefore waits for d of real time before it executes, even if the client gave up.
func DelayBefore(d time.Duration) Fault { return Fault{kind: delayBefore, delay: d} }

// DelayAfter executes, and waits for d of real time before it answers.
func DelayAfter(d time.Duration) Fault { return Fault{kind: delayAfter, delay: d} }

// Status answers with this status and the additional header, which may be nil, without executing anything. If the
// provider's rules recognise such an answer by a field in the body, the body has the field. A header that sets
// Content-Type to text/html gets an HTML page.
func Status(code int, header http.Header) Fault {
	return Fault{kind: status, status: code, header: header.Clone()}
}

// PageBefore answers with this status and an HTML page, like a proxy that cannot reach the provider. Nothing is
// executed.
func PageBefore(code int) Fault { return Fault{kind: pageBefore, status: code} }

// PageAfter executes, and answers with this status and an HTML page, like a proxy without the provider's answer.
func PageAfter(code int) Fault { return Fault{kind: pageAfter, status: code} }

// FailAfter executes, with the effect, and then fails: the provider itself answers with this status, from 500 to 599.
// The provider's contract defines what the provider remembers:
//
//   - everything: it remembers the failure;
//   - clean failures: the provider remembers the success, and a repeat completes;
//   - successes only: it remembers nothing, so a repeat has a second effect.
func FailAfter(code int) Fault { return Fault{kind: failAfter, status: code} }

// Inform executes, and sends an informational response of this status, from 102 to 199, before the answer.
func Inform(code int) Fault { return Fault{kind: inform, status: code} }

// NoList answers a look-up with a 200 whose list, or whose whole object, is missing. NoList, Unfiltered,
// PageLoop and EmptyList are for [Server.ScriptLooks] and [Server.EveryLook], and do nothing to other
// requests.
func NoList() Fault { return Fault{kind: noList} }

// Unfiltered answers a look-up as if no filter were given, with all objects of the kind, whatever request made each
// object.
func Unfiltered() Fault { return Fault{kind: unfiltered} }

// PageLoop answers a look-up for any page with the first page, as if there were more.
func PageLoop() Fault { return Fault{kind: pageLoop} }

// EmptyList answers a look-up with an empty list, or with 404 if its answer is one object, as for another
// account.
func EmptyList() Fault { return Fault{kind: emptyList} }

// ByReset returns the fault with a TCP reset at the end of its connection, which may also destroy bytes sent
// before.
func (f Fault) ByReset() Fault {
	f.end = reset
	return f
}

// ByClose returns the fault with an orderly close of the connection, like a server that shuts down.
func (f Fault) ByClose() Fault {
	f.end = orderly
	return f
}

// String returns the fault in words, for logs.
func (f Fault) String() string {
	text := f.text()
	switch f.end {
	case reset:
		text += ", by a reset"
	case orderly:
		text += ", by a close"
	}
	return text
}

func (f Fault) text() string {
	switch f.kind {
	case dropBefore:
		return "drop before the effect"
	case dropAfter:
		return "drop after the effect"
	case cut:
		return "cut after " + f.length() + " of the body"
	case delayBefore:
		return fmt.Sprintf("delay of %v before the effect", f.delay)
	case delayAfter:
		return fmt.Sprintf("delay of %v after the effect", f.delay)
	case status:
		return fmt.Sprintf("status %d", f.status)
	case cutRequest:
		return "request cut after " + f.length() + " of the body"
	case cutResponse:
		return "cut after " + f.length() + " of the response"
	case malformedChunk:
		return "malformed chunk"
	case wrongLength:
		return fmt.Sprintf("Content-Length wrong by %+d", f.bytes)
	case pageBefore:
		return fmt.Sprintf("HTML page with status %d before the effect", f.status)
	case pageAfter:
		return fmt.Sprintf("HTML page with status %d after the effect", f.status)
	case failAfter:
		return fmt.Sprintf("failure with status %d after the effect", f.status)
	case straggle:
		return fmt.Sprintf("drop, and the effect %v later", f.delay)
	case noList:
		return "no list"
	case unfiltered:
		return "filter ignored"
	case pageLoop:
		return "first page again"
	case emptyList:
		return "empty list"
	case inform:
		return fmt.Sprintf("informational %d before the answer", f.status)
	}
	return "none"
}

func (f Fault) length() string {
	if f.bytes < 0 {
		return fmt.Sprintf("%.0f %%", f.part*100)
	}
	return fmt.Sprintf("%d bytes", f.bytes)
}

// point returns how many bytes, out of n, the fault lets through. It is smaller than n.
func (f Fault) point(n int) int {
	at := f.bytes
	if at < 0 {
		at = int(f.part * float64(n))
	}
	return max(min(at, n-1), 0)
}
