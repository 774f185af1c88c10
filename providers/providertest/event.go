package providertest

import (
	"time"

	"github.com/onceward/onceward/providers"
)

// EventManner is how an event is delivered, and its defects. The zero EventManner delivers an event once, signed, one
// second of the server's clock after the cause.
type EventManner struct {
	// Lose never sends it. The list of events has it.
	Lose bool

	// Never is an event that the provider fails to create: the server neither sends nor lists the event.
	Never bool

	// Bulk is the number of bytes by which the body grows.
	Bulk int

	// Duplicates is the number of repeats, with the same id, each a second later.
	Duplicates int

	// Reorder holds it back until a later event was delivered, but for an hour at most.
	Reorder bool

	// BeforeResponse delivers the event before the answer to the causing request.
	BeforeResponse bool

	// Delay is the time before it is sent, on the server's clock. Default: one second.
	Delay time.Duration

	// Thin leaves out the object except for its id: a reason for a look-up.
	Thin bool

	// Forged signs it with another secret.
	Forged bool

	// OtherMode makes it claim the other mode: test instead of live.
	OtherMode bool

	// Account, if not empty, is the account that the event claims.
	Account string
}

// Delivery is one delivery of an event.
type Delivery struct {
	Event  string // the event's id, the same for every repeat
	Type   string
	Effect int // the Seq of the effect that it tells of
	Manner EventManner
	At     time.Time // on the server's clock
	Status int       // of the answer; 0 if there was none
	Err    error     // why there was none, or why it could not be sent
}

// event is an event to be sent.
type event struct {
	id     string
	rule   *providers.EventRule
	seq    int // of its effect
	manner EventManner
	body   []byte
	item   any // as the list has it; nil if the table lists no events
	at     time.Time
	world  world
	to     string
	secret string
	sent   bool // at least once
	taken  bool // by the receiver, with a 2xx
}
