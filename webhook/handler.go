package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
)

// DefaultMaxBody is how many bytes of a body [Handler] reads unless MaxBody says
// otherwise.
const DefaultMaxBody = 1 << 20

// Handler verifies requests in front of another handler. A request that is
// verified goes to Next with its body to be read again from its beginning, and
// [MessageOf] its context tells what it says of itself, and whether that is evidence
// or a hint. All others are refused
// and never reach Next: 400 for ErrMalformed and for a body that can't be read,
// 413 for ErrTooLarge, 503 for ErrCertificate, and 403, or what the provider asks
// for, for ErrSignature and ErrTimestamp. The body of the refusal says nothing more
// than its status.
//
// Put nothing before it that reads the body or parses its form. It is safe for
// concurrent use.
type Handler struct {
	Verifier *Verifier    // required
	Next     http.Handler // required

	// MaxBody limits the body, in bytes. Zero: DefaultMaxBody.
	MaxBody int64

	// Refused, if it is set, is told why a request is refused, before the answer is
	// written: a place to log or count. The request's body has been read.
	Refused func(r *http.Request, err error)
}

// ServeHTTP verifies r and hands it to Next.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit := h.MaxBody
	if limit == 0 {
		limit = DefaultMaxBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		h.refuse(w, r, &Error{Kind: ErrTooLarge})
		return
	}
	if err != nil {
		h.refuse(w, r, &Error{Kind: ErrMalformed, Reason: "the body can't be read", Err: err})
		return
	}
	m, err := h.Verifier.Verify(r, body)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), messageKey{}, m))
	r.Body = io.NopCloser(bytes.NewReader(body)) // the server closes the one it made
	r.ContentLength = int64(len(body))
	h.Next.ServeHTTP(w, r)
}

func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if h.Refused != nil {
		h.Refused(r, err)
	}
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrMalformed):
		status = http.StatusBadRequest
	case errors.Is(err, ErrTooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrCertificate):
		status = http.StatusServiceUnavailable
	case errors.Is(err, ErrSignature), errors.Is(err, ErrTimestamp):
		status = http.StatusForbidden
		if h.Verifier.refusal != 0 {
			status = h.Verifier.refusal
		}
	}
	text := http.StatusText(status)
	if text == "" {
		text = "Refused"
	}
	http.Error(w, text, status)
}
