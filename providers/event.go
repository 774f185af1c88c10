package providers

// EventRule says what one kind of the events that a provider sends (webhooks) proves of
// the request that it is about. An event that no rule matches means nothing.
//
// Only an event whose signature was verified proves anything. None may count on order:
// events come late, twice and out of turn. An event that says what its object's state was
// never takes back what a later one or an answer said.
type EventRule struct {
	// Field is the path of the event's type in its body, as of [Rule.Field], and Equals
	// the type: "type", "charge.succeeded".
	Field, Equals string

	// Also has to hold besides. Is may have no placeholder but those of the request that
	// the event is then compared to.
	Also []Same

	// Endpoint is the Pattern of the endpoint whose requests it speaks of. Empty: of
	// any that has the key or the reference.
	Endpoint string

	// Items is the path of the events, where one request brings several: "events[]". All
	// other paths then start at one of them. Empty: the body is the event.
	Items string

	// Key and Reference are the paths of the operation's key and of its reference. One of
	// them, or Object, is what the event's operation is found by.
	Key, Reference string

	// ID is the path of the event's own id, by which a repeat of it is known; empty where
	// it has none.
	ID string

	// Object is the path of the object's id, and Created that of its time of creation, as
	// of [Lookup.Created].
	Object, Created string

	// At is the path of the event's time, written as [Lookup.Created] says.
	At string

	// Account is the path of the account that it happened in; empty where the event
	// does not say.
	Account string

	// Live is the path of a boolean that is false for what happened in a test mode; empty
	// where the event does not say.
	Live string

	// Is is what it means for the request; not used with Thin.
	Is Outcome

	// Thin says that the event proves nothing itself, but that it is time to look.
	Thin bool

	// Source names where the facts come from.
	Source string
}
