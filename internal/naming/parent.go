package naming

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Parent is the parent that the operations under a context are steps of. A context holds a pointer to the parent, and
// all derived contexts share the pointer.
type Parent struct {
	// Ref is the Ref.Parent of the operations below. It is the parent's key if the key is one of our own. Otherwise it
	// begins with a word and a space. No key holds a space, so it equals no key.
	Ref string

	Endpoint string // of an inbound request: its steps are refused at any other; "": not compared

	Scope   string                          // the scope that its steps have; "": any
	Derive  func(scope, step string) string // a step's key
	Steps   *Ordinals                       // makes up the steps of unnamed calls
	Invalid error                           // why its key can't be one; nil: it can

	// Earlier reports whether a recorded operation below is of an earlier request with the same key: see seam.WithEarlier.
	// Nil means that no request has the key twice.
	Earlier func(*journal.Operation) bool

	// Tenant is set for an inbound request without a key, and nothing else is then. It returns the tenant of the names
	// below.
	Tenant func() (string, error)

	Flow *seam.Parent // of a flow, whose steps have their own names; nil: of none
}

// OwnParent returns the parent for a key that no stranger chose.
func OwnParent(key string) *Parent {
	derive := func(scope, step string) string { return Child(key, scope, step) }
	return &Parent{Ref: key, Derive: derive, Steps: &Ordinals{}}
}

// whose returns the function that names the tenant for the operations below, or nil if none does.
func (p *Parent) whose() func() (string, error) {
	if p.Tenant == nil && p.Scope != "" {
		return func() (string, error) { return p.Scope, nil }
	}
	return p.Tenant
}

// StepOf returns what an unnamed call is called for: "POST api.stripe.com/v1/charges". It holds one space and no #, so
// no step with an ordinal equals a step without.
func StepOf(method string, u *url.URL) string {
	path := cmp.Or(u.EscapedPath(), "/")
	return method + " " + hostOf(u) + path
}

// hostOf returns the host as compared: without the scheme's default port.
func hostOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch {
	case strings.EqualFold(u.Scheme, "https"):
		host = strings.TrimSuffix(host, ":443")
	case strings.EqualFold(u.Scheme, "http"):
		host = strings.TrimSuffix(host, ":80")
	}
	return host
}

// Ordinals tells alike unnamed calls under one parent apart by their order.
type Ordinals struct {
	mu    sync.Mutex
	alike map[string]*alike
}

// alike are the calls that are called for the same.
type alike struct {
	last     int            // the latest ordinal
	answered bool           // its caller has its whole answer
	carried  map[string]int // ordinals by the keys that calls had already
	running  bool
	crossed  bool // two ran at once: their order was chance
}

// Take gives a call an ordinal among the calls with the same name. One after a call that was answered is the next. A
// call after an unanswered one has the same ordinal: the caller is trying again, and a separate step could be a second
// effect. So has one with the same carried key. Calls that run at once have no order.
func (o *Ordinals) Take(what, carried string) (ordinal int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.alike[what]
	if a == nil {
		if o.alike == nil {
			o.alike = map[string]*alike{}
		}
		a = &alike{last: 1, carried: map[string]int{}}
		o.alike[what] = a
	}
	if a.running || a.crossed {
		a.crossed = true
		return 0, fmt.Errorf("another unnamed %s ran at the same time under its parent", what)
	}
	a.running = true
	if n, again := a.carried[carried]; again {
		return n, nil
	}
	if a.answered {
		a.last, a.answered = a.last+1, false
	}
	if carried != "" {
		a.carried[carried] = a.last
	}
	return a.last, nil
}

// Leave ends what Take began.
func (o *Ordinals) Leave(what string, ordinal int, answered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.alike[what]
	a.running = false
	if ordinal == a.last && answered {
		a.answered = true
	}
}
