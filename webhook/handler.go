package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/onceward/onceward/internal/listed"
)

// DefaultMaxBody is the largest body, in bytes, that a [Handler] reads unless MaxBody is set.
const DefaultMaxBody = 1 << 20

// Handler verifies requests in front of another handler. Next gets a verified request with the body rewound. [MessageOf]
// returns the message from the request's context, and Message.Evidence tells evidence from a hint.
//
// Handler rejects all other requests, and Next never sees them. The status of the answer is:
//   - 400 for ErrMalformed, and for a body that can't be read;
//   - 413 for ErrTooLarge;
//   - 503 for ErrCertificate;
//   - 403, or the status that the provider asks for, for ErrSignature and ErrTimestamp.
//
// The answer's body says nothing more than the status.
//
// Put nothing in front that reads the body or parses the form. A Handler is safe for concurrent use.
type Handler struct {
	Verifier *Verifier    // required
	Next     http.Handler // required

	// MaxBody limits the body, in bytes. Zero means DefaultMaxBody.
	MaxBody int64

	// Refused receives the reason for a rejection before the answer is written: a place to log or count. The request's
	// body has been read. Nil means no call.
	Refused func(r *http.Request, err error)
}

// ServeHTTP verifies r, then calls Next with r.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit := cmp.Or(h.MaxBody, DefaultMaxBody)
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
	r = r.WithContext(context.WithValue(r.Context(), listed.MessageKey{}, m))
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
		status = cmp.Or(h.Verifier.refusal, http.StatusForbidden)
	}
	text := cmp.Or(http.StatusText(status), "Refused")
	http.Error(w, text, status)
}
