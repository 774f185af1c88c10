package onceward

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// Response is what a provider answered, where that is not the operation's outcome.
// Printed, logged or as JSON it is its status and no more: header and body may hold
// anything.
type Response struct {
	Status int
	Header http.Header
	Body   []byte // what was read of it, at most Config.MaxResponseBody
	Cut    bool   // Body is only its beginning
}

func (r Response) String() string { return fmt.Sprintf("status %d", r.Status) }

// Format writes String, whatever the verb.
func (r Response) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue is String.
func (r Response) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON gives the status alone.
func (r Response) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct{ Status int }{r.Status})
}

// response is what was answered to the attempt; nil: nothing was.
func (r *run) response(a *attempt) *Response {
	if a.resp == nil {
		return nil
	}
	body := a.body
	if limit := r.client.core.MaxResponseBody; int64(len(body)) > limit {
		body = body[:limit:limit]
	}
	return &Response{Status: a.resp.StatusCode, Header: a.resp.Header, Body: body, Cut: a.partial || a.cut != nil}
}

// lastResponse is the last one that came in this run, if any did.
func (r *run) lastResponse() *Response {
	if last := r.response(&r.attempt); last != nil {
		return last
	}
	return r.answered
}

// discard closes the rest of an answer that nobody gets.
func (a *attempt) discard() {
	if a.partial && !a.closed {
		a.resp.Body.Close()
	}
}
