package exchange

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/journal"
)

// Answer is a request's result.
type Answer struct {
	Forwarded bool           // the request was no operation; the transport has answered it
	Response  *http.Response // nil with an Err
	Err       error

	Operation *journal.Operation // that the Response is of, which does not change any more; nil without one
	Replayed  bool               // the answer was recorded before, here or at the provider
	Source    Source             // of the Response
}

// Source says whose answer a response is.
type Source uint8

const (
	Sent     Source = iota // the call's own
	Recorded               // the journal's
	Shared                 // another call's that ran at the same time
)

// OperationKey is the operation's key in a response's request context. Package onceward puts it there.
var OperationKey = &struct{ name string }{"operation"}

// IsAnswer reports whether a response belongs to an operation.
func IsAnswer(resp *http.Response) bool {
	return resp != nil && resp.Request != nil && resp.Request.Context().Value(OperationKey) != nil
}

// IsReplayable reports whether the journal has the whole answer.
func IsReplayable(op *journal.Operation) bool {
	return op.Answer != nil && op.Answer.Status != 0 && !op.Answer.Omitted
}

// byHandHeader marks a response whose answer was given to Resolve.
const byHandHeader = "Onceward-Answer"

// Replay makes a response from a recorded answer. It carries no Set-Cookie.
func (c *Client) Replay(op *journal.Operation) Answer {
	a, deliver := op.Answer, c.Deliveries.OnClose(op)
	resp := &http.Response{
		Status:        fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)),
		StatusCode:    a.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        a.Header.Clone(),
		Trailer:       a.Trailer.Clone(),
		ContentLength: int64(len(a.Body)),
	}
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	if a.ByHand {
		resp.Header.Set(byHandHeader, "by hand")
	}
	if a.Cut {
		resp.ContentLength = -1
		resp.Body = c.CutBody(op, a.Body, deliver)
	} else {
		resp.Body = Body(a.Body, deliver)
	}
	stood := *op // so that op stays off the heap for calls without a replay
	return Answer{Response: resp, Operation: &stood, Replayed: true, Source: Recorded}
}

// cutShort returns the error where a body was cut off. The error says if the operation is completed all
// the same.
func (c *Client) cutShort(op *journal.Operation) error {
	if op.State != journal.StateCompleted {
		return io.ErrUnexpectedEOF
	}
	return c.Explain(&Failure{Operation: *op, Kind: fault.ErrAnswerGone, Cause: io.ErrUnexpectedEOF})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// answerBody calls deliver, if there is one, when it is closed for the first time.
type answerBody struct {
	io.Reader
	closer  io.Closer
	deliver func()
	once    sync.Once
	memory  bytes.Reader // the Reader, where that is all of the body
}

// Stream returns the rest from a body that is too large for the memory.
func Stream(rest io.ReadCloser, deliver func()) io.ReadCloser {
	return &answerBody{Reader: rest, closer: rest, deliver: deliver}
}

// CutBody returns the body part that came before the connection broke. At the end of the part comes an error.
func (c *Client) CutBody(op *journal.Operation, part []byte, deliver func()) io.ReadCloser {
	return &answerBody{Reader: io.MultiReader(bytes.NewReader(part), failing{c.cutShort(op)}), deliver: deliver}
}

// Body returns a body that was read whole.
func Body(whole []byte, deliver func()) io.ReadCloser {
	b := &answerBody{deliver: deliver}
	b.memory.Reset(whole)
	b.Reader = &b.memory
	return b
}

func (b *answerBody) Close() (err error) {
	b.once.Do(func() {
		if b.closer != nil {
			err = b.closer.Close()
		}
		if b.deliver != nil {
			b.deliver()
		}
	})
	return err
}
