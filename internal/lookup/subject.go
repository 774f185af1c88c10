package lookup

import (
	"net/http"
	"net/url"
	"time"
)

// Subject holds the known facts about an operation that is looked for.
type Subject struct {
	// URL is the request's. The look-up goes to the same host.
	URL *url.URL

	// Header holds the request's headers, without its credential.
	Header http.Header

	// Values are the request's values named by [tables.Compared]. The subject keeps Values without the body.
	Values map[string]string

	// Key is the operation's key, or empty if no request ever had the key.
	Key string

	// Reference is the request's reference, or empty if there was none. ReferenceOurs says that a client made the
	// reference at random for the operation alone.
	Reference     string
	ReferenceOurs bool

	// Account is the credential's account from [Account], or "" if unknown.
	Account string

	// Object is the operation's object id, or "" if that is not known.
	Object string

	// First is the first send's time. Last is the last attempt's end or, if unknown, the outcome's time.
	First, Last time.Time
}

// value returns a placeholder's value, apart from a look-up's own placeholders.
func (s *Subject) value(name string) (text string, ok bool) {
	switch name {
	case "key":
		return s.Key, s.Key != ""
	case "reference":
		return s.Reference, s.Reference != ""
	case "account":
		return s.Account, s.Account != ""
	}
	text, ok = s.Values[name]
	return text, ok
}

const (
	// slack is how far a provider's clocks may be off, for objects that time identifies.
	slack = 5 * time.Minute

	// doubt is a further span before that. An object of that span is taken neither for another operation's nor for this
	// one's: our clock may have been wrong then, and corrected since.
	doubt = 15 * time.Minute

	// slackOurs is the same for a reference that is an operation's alone: the reference
	// identifies the object without a time.
	slackOurs = 24 * time.Hour

	// after is how long after an operation's last attempt its object may have been created. It is for objects that
	// fields identify, and not a key or a reference.
	after = time.Hour
)

// Window is a time span that objects were created in.
type Window struct{ Since, Until time.Time }

// Window returns the window in which the operation's object can have been created, as seen now. It begins twenty
// minutes before the first send, or a day before if no other operation has the reference. It ends now.
func (s *Subject) Window(now time.Time) Window { return Window{s.read(), now} }

// read returns the time from which objects are read.
func (s *Subject) read() time.Time {
	if s.ours() {
		return s.since()
	}
	return s.since().Add(-doubt)
}

// Span returns the window for an object that only resembles the operation's: the window ends soon after the last
// attempt.
func (s *Subject) Span(now time.Time) Window {
	w := s.Window(now)
	if over := s.Last.Add(after + slack); !s.Last.IsZero() && over.Before(now) {
		w.Until = over
	}
	return w
}

// has reports whether a time is in the window.
func (w Window) has(t time.Time) bool { return !t.Before(w.Since) && !t.After(w.Until) }

// ours reports whether the request has a reference that is the operation's alone.
func (s *Subject) ours() bool { return s.ReferenceOurs && s.Reference != "" }

// since returns the earliest time at which the operation's object can have been created.
func (s *Subject) since() time.Time {
	if s.ours() {
		return s.First.Add(-slackOurs)
	}
	return s.First.Add(-slack)
}

// Joined returns the window that holds both.
func (w Window) Joined(other Window) Window {
	if other.Since.Before(w.Since) {
		w.Since = other.Since
	}
	if other.Until.After(w.Until) {
		w.Until = other.Until
	}
	return w
}
