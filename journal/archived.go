package journal

import (
	"net/http"
	"time"
)

// Archived is an operation as a JSON line, for a cold copy. A line has payloads in clear, also of a sealed journal. The command `onceward export` writes such lines. The
// fields' names are stable. Later releases may add fields.
type Archived struct {
	Scope    string `json:"scope,omitempty"`
	Parent   string `json:"parent,omitempty"`
	ID       string `json:"id"`
	Naming   string `json:"naming"`
	Provider string `json:"provider,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`

	Key         string `json:"key,omitempty"`
	Generation  int    `json:"generation"`
	Fingerprint string `json:"fingerprint,omitempty"`

	State         string    `json:"state"`
	Cause         string    `json:"cause,omitempty"`
	Attempts      int       `json:"attempts"`
	SecondEffects int       `json:"second_effects,omitempty"`
	CreatedAt     time.Time `json:"created_at"`
	FirstSentAt   time.Time `json:"first_sent_at,omitzero"`
	SettledAt     time.Time `json:"settled_at" doc:"of what has no outcome: the year 1"`

	// SealedBy is Operation.SealedBy. The line then lacks what the key seals.
	SealedBy string `json:"sealed_by,omitempty" doc:"the key that --keys lacks: what it seals is left out"`

	Request ArchivedRequest `json:"request"`
	Answer  *ArchivedAnswer `json:"answer,omitempty"`
}

// ArchivedRequest is the request in an Archived.
type ArchivedRequest struct {
	Method string      `json:"method"`
	URL    string      `json:"url"`
	Host   string      `json:"host,omitempty"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty" doc:"base64, with --bodies"`
}

// ArchivedAnswer is the answer in an Archived.
type ArchivedAnswer struct {
	Generation int         `json:"generation"`
	Status     int         `json:"status,omitempty"`
	Header     http.Header `json:"header,omitempty"`
	Body       []byte      `json:"body,omitempty" doc:"base64, with --bodies"`
	Omitted    bool        `json:"omitted,omitempty"`
	Cut        bool        `json:"cut,omitempty"`
	Refused    bool        `json:"refused,omitempty"`
	Pointer    string      `json:"pointer,omitempty"`
	ByHand     bool        `json:"by_hand,omitempty"`
}

// ArchivedOf returns the operation as such a line, with or without the request's and the answer's bodies.
func ArchivedOf(op *Operation, bodies bool) Archived {
	line := Archived{
		Scope: op.Scope, Parent: op.Parent, ID: op.ID, Naming: op.Naming.String(), Provider: op.Provider, Endpoint: op.Endpoint,
		Key: op.Key, Generation: op.Generation, Fingerprint: op.Fingerprint,
		State: op.State.String(), Cause: op.Cause, Attempts: op.Attempts, SecondEffects: op.SecondEffects,
		CreatedAt: op.CreatedAt, FirstSentAt: op.FirstSentAt, SettledAt: op.SettledAt, SealedBy: op.SealedBy,
		Request: ArchivedRequest{Method: op.Request.Method, URL: op.Request.URL, Host: op.Request.Host, Header: op.Request.Header},
	}
	if a := op.Answer; a != nil {
		line.Answer = &ArchivedAnswer{
			Generation: a.Generation, Status: a.Status, Header: a.Header, Omitted: a.Omitted, Cut: a.Cut, Refused: a.Refused,
			Pointer: a.Pointer, ByHand: a.ByHand,
		}
	}
	if bodies {
		line.Request.Body = op.Request.Body
		if op.Answer != nil {
			line.Answer.Body = op.Answer.Body
		}
	}
	return line
}
