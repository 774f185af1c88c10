package providertest

import (
	"net/http"
	"time"

	"github.com/onceward/onceward/providers"
)

// Effect is one execution that took effect: the handler ran and answered with a status below 400, and the answer is no
// error in a 200.
type Effect struct {
	// Seq counts the effects, from 1.
	Seq int

	// Request is the causing request's number.
	Request int

	// Key is the idempotency key of the execution, without quotes, or empty.
	Key string

	Method string
	Path   string
	Header http.Header
	Body   []byte

	// Status is the status of the handler's answer.
	Status int

	// At is the effect's time on the server's clock.
	At time.Time

	// Account is the effect's account, and Mode the credential's mode, if the table distinguishes these.
	Account, Mode string

	// Object is the created object's id. The id is the first that exists among the answer's id, the end of the
	// answer's Location, and an id made by the server. The id in the answer is the member id, or the member that the
	// table's ObjectID names. The member may belong to the answer's object or to the first object within.
	Object string

	// State is the object's state after [Server.Turn]. It is Refused from the start if the handler's answer is a decline
	// by the table (Declines): nothing took effect then. Zero means neither.
	State providers.Outcome
}

// entry is the ledger's record of one request.
type entry struct {
	number       int
	key          string
	method, path string
	fault        Fault
	came         string // of it; empty while it is being worked on
	effect       int    // its effect's Seq; 0 if it had none
	waits        bool   // to be executed, without a client for the answer
}
