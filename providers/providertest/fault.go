package providertest

import (
	"fmt"
	"net/http"
	"time"
)

// Fault is what goes wrong with one request. The zero Fault is none.
//
// Over HTTP/2 there are no bytes of a connection to spoil: wherever a fault ends
// the connection there, the stream is reset instead, after as much of the body as
// the fault lets through.
type Fault struct {
	kind   kind
	bytes  int     // before a cut; negative: by part
	part   float64 // of what is cut
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

// None lets a request through: a gap in a script.
func None() Fault { return Fault{} }

// DropBefore resets the connection before anything is executed.
func DropBefore() Fault { return Fault{kind: dropBefore} }

// DropAfter executes, and resets the connection in place of the answer.
func DropAfter() Fault { return Fault{kind: dropAfter} }

// CutRequestAt reads at most n bytes of the request's body and resets the
// connection. Nothing is executed.
func CutRequestAt(n int) Fault { return Fault{kind: cutRequest, bytes: max(n, 0)} }

// CutAt executes, sends the headers, with the whole body's Content-Length, and
// the first n bytes of the body, at most all but one, and then closes the
// connection. An answer without a body is dropped as a whole.
func CutAt(n int) Fault { return Fault{kind: cut, bytes: max(n, 0)} }

// CutResponseAt executes, and closes the connection after the first n bytes of
// the response as HTTP/1.1 has it, from the first one of its status line on and
// at most all but one. Over HTTP/2 the stream is reset before the headers.
func CutResponseAt(n int) Fault { return Fault{kind: cutResponse, bytes: max(n, 0)} }

// MalformedChunk executes, and answers with a chunked body whose second chunk is
// none. Over HTTP/2 the stream is reset in the middle of the body.
func MalformedChunk() Fault { return Fault{kind: malformedChunk} }

// WrongLength executes, and answers with a Content-Length that is by bytes more,
// or less if by is negative, than the body has; it says that it closes the
// connection after the body, and does. A client can't see one that is too small: it
// gets the beginning of the body for the whole. Over HTTP/2 one that is too large
// ends in a reset.
func WrongLength(by int) Fault { return Fault{kind: wrongLength, bytes: by} }

// Straggle takes the whole request, resets the connection, and executes d later, on the
// server's clock, as a request does that was held up in a queue. Its key is not reserved
// before: what came first under it by then is what it is a repeat of. A server that is
// closed before never executes it.
func Straggle(d time.Duration) Fault { return Fault{kind: straggle, delay: d} }

// DelayBefore waits for d of real time before anything is executed. It executes
// then even if the client has given up.
func DelayBefore(d time.Duration) Fault { return Fault{kind: delayBefore, delay: d} }

// DelayAfter executes, and waits for d of real time before it answers.
func DelayAfter(d time.Duration) Fault { return Fault{kind: delayAfter, delay: d} }

// Status answers with this status and, in addition, header, which may be nil,
// without executing anything. Where the provider's rules tell such an answer by
// a field of its body, the body has that field. A header that sets Content-Type
// to text/html gets an HTML page.
func Status(code int, header http.Header) Fault {
	return Fault{kind: status, status: code, header: header.Clone()}
}

// PageBefore answers with this status and an HTML page, as a proxy does in front
// of a provider that it doesn't reach. Nothing is executed.
func PageBefore(code int) Fault { return Fault{kind: pageBefore, status: code} }

// PageAfter executes, and answers with this status and an HTML page, as a proxy
// does that has lost the provider's answer.
func PageAfter(code int) Fault { return Fault{kind: pageAfter, status: code} }

// FailAfter executes, with its effect, and then fails: the provider itself answers
// with this status, which should be from 500 to 599. What it remembers follows its
// contract: the failure, if it remembers everything; the success that a repeat
// completes, if its failures are clean; nothing, if it only remembers successes,
// so that a repeat has a second effect.
func FailAfter(code int) Fault { return Fault{kind: failAfter, status: code} }

// Inform executes, and sends an informational response of this status, from 102
// to 199, before the answer.
func Inform(code int) Fault { return Fault{kind: inform, status: code} }

// NoList answers a look-up by a 200 whose list, or whose whole object, is missing. This
// and the next three are for [Server.ScriptLooks] and [Server.EveryLook], and do nothing to
// other requests.
func NoList() Fault { return Fault{kind: noList} }

// Unfiltered answers a look-up as if it had no filter: by all objects of its kind, those
// of other requests included.
func Unfiltered() Fault { return Fault{kind: unfiltered} }

// PageLoop answers a look-up by the first page, whichever is asked for, as if there were
// more.
func PageLoop() Fault { return Fault{kind: pageLoop} }

// EmptyList answers a look-up by an empty list, or by 404 where its answer is one object,
// as for another account.
func EmptyList() Fault { return Fault{kind: emptyList} }

// ByReset returns the fault with its connection ended by a TCP reset, which may
// also destroy what was sent before it.
func (f Fault) ByReset() Fault {
	f.end = reset
	return f
}

// ByClose returns the fault with its connection ended in order, as a server that
// shuts down does it.
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

// point is where among n bytes the fault cuts, before the last one.
func (f Fault) point(n int) int {
	at := f.bytes
	if at < 0 {
		at = int(f.part * float64(n))
	}
	return max(min(at, n-1), 0)
}
