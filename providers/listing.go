package providers

// Listing describes a list of an account's money movements, for Client.Objects.
type Listing struct {
	// List is the list. An entry of the list stands for the event: List.ID, List.At and List.Type are the event's id,
	// time and type. Types, TypesAtOnce, Undelivered, Account, As and SameID stay empty, and List.Type may.
	List Feed

	// Kind is the path, in an entry, to the kind of the object that moved the money. An entry about another kind than
	// those of Objects, or about none, has no operation. Empty means that each entry is about the one kind of Objects.
	Kind string

	// Objects are the kinds that the list covers. Several may have one Shows. The first with an ID in the entry counts.
	Objects []ListedObject
}

// ListedObject says how an entry shows an object of one kind.
type ListedObject struct {
	// Shows is the text at Listing.Kind, and empty if Listing.Kind is. Kind is the kind in the words of the table
	// (Endpoint.Object).
	Shows, Kind string

	// ID is the path of the object's id in the entry. Key and Reference are the paths of the object's idempotency key and
	// reference (Endpoint.Reference). Either may be empty.
	ID, Key, Reference string

	// Amount and Currency are the paths to the moved amount, with the request's sign. Decimal says that the amount is a
	// decimal number, and not a number of the smallest unit.
	Amount, Currency string
	Decimal          bool

	// Means are the states of the object, by paths in the entry. An object in another state took effect.
	Means []Meaning
}
