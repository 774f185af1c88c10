package server

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"sync"

	"github.com/onceward/onceward/journal"
)

// recorder holds a handler's answer back until the answer is recorded. A recorder has no Flush and no Hijack, so that
// http.ResponseController returns http.ErrNotSupported.
type recorder struct {
	header http.Header
	coding string // that a middleware around has set
	most   int64

	mu     sync.Mutex  // a goroutine may outlive the handler
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
	over   bool // the body is larger than most
	silent bool // the handler wrote no status and no body
	ended  bool // the handler has returned
}

// newRecorder makes a recorder with w's header: an outer middleware may have set the header.
func newRecorder(w http.ResponseWriter, most int64) *recorder {
	return &recorder{header: w.Header().Clone(), coding: w.Header().Get("Content-Encoding"), most: most}
}

func (r *recorder) Header() http.Header { return r.header }

// WriteHeader takes the final status. Informational ones (103 Early Hints) are not sent. WriteHeader panics for an
// invalid status, as net/http does: a handler that forgot to set one has not succeeded.
func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(status)
}

// begin takes the status. The caller holds r.mu.
func (r *recorder) begin(status int) {
	switch {
	case r.status != 0 || r.ended:
	case status < 100 || status > 999:
		panic(fmt.Sprintf("server: a handler wrote the status %d, which HTTP lacks", status))
	case status >= 200, status == http.StatusSwitchingProtocols:
		r.status, r.sent = status, r.header.Clone()
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return 0, errHandlerReturned
	}
	r.begin(http.StatusOK)
	if r.over = r.over || int64(r.body.Len()+len(b)) > r.most; r.over {
		return 0, errAnswerTooLarge
	}
	return r.body.Write(b)
}

// done is called once the handler has returned. From then on the answer is as it is.
func (r *recorder) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = r.status == 0
	r.begin(http.StatusOK)
	r.ended = true
}

// recorded returns the kept part of the answer, and false if the same answer can't be given again. The kept headers
// count as the body does. An answer without a key is given once only, so the coding does not matter.
func (r *recorder) recorded(e *Endpoint, keyless bool) (a *journal.Answer, recordable bool) {
	a = &journal.Answer{Status: r.status, Header: e.kept(r.sent), Body: bytes.Clone(r.body.Bytes())}
	size := int64(len(a.Body))
	for name, values := range a.Header {
		for _, value := range values {
			size += int64(len(name) + len(value))
		}
	}
	if r.over || size > r.most || r.status == http.StatusSwitchingProtocols || !keyless && r.sent.Get("Content-Encoding") != r.coding {
		return nil, false
	}
	for name := range r.header {
		if len(name) > len(http.TrailerPrefix) && name[:len(http.TrailerPrefix)] == http.TrailerPrefix {
			return nil, false
		}
	}
	if a.Header.Get("Content-Type") == "" && len(a.Body) > 0 {
		a.Header.Set("Content-Type", http.DetectContentType(a.Body)) // as net/http would
	}
	return a, len(r.sent["Trailer"]) == 0
}

// give writes the handler's answer to its caller.
func (r *recorder) give(w http.ResponseWriter, more http.Header) {
	clear(w.Header())
	maps.Copy(w.Header(), r.sent)
	for _, name := range []string{replayedHeader, expiresHeader, recordedHeader} { // a handler may pass another service's answer on
		w.Header().Del(name)
	}
	maps.Copy(w.Header(), more)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes())
}
