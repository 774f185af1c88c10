package model

import (
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Times of the model. The clock goes by steps; retention, window and handling time
// are real durations that these steps meet inside, in the margin and past.
const (
	step      = 11*time.Hour + 45*time.Minute
	retention = 24 * time.Hour   // the window is 23 hours: one step is inside, two are in the margin, three are past
	handling  = 2 * time.Hour    // of providers without a guard
	pause     = 30 * time.Minute // the pause of a parked operation: until the next step
	past      = 3                // age, in steps, from which on nothing changes any more
)

// Config is one world to explore.
type Config struct {
	Name  string
	About string

	Clients  int            // 1 or 2
	Messages int            // at most so many requests under way; three in the full search
	Naming   journal.Naming // of the operation
	Keyless  bool           // the endpoint takes no key
	PUT      bool           // the method is idempotent (RFC 9110 section 9.2.2)

	Provider Provider
	Terms    []journal.Terms // what each Begin may state about the provider, in the order of the releases

	Outcomes  bool // the clients have a hook for outcomes
	NamedOnly bool // Config.NamedOnly
	Others    bool // callers may ask for another request under the name
	Clock     bool // time passes
	Patient   bool // contexts have deadlines of days: a run outlives a step of the clock
	Reaps     bool // operations past their keep are reaped
	Backups   bool // the journal may be backed up, and restored if the budget allows it
	Corrected bool // the first terms are wrong, and nothing has come of it before a release with the last ones
	Forms     bool // clients of two releases put the key in different places: to the provider, two keys
	Finds     bool // looks and events may settle it; an absence is what the program's own look-up says, after a handling time
	Straggles bool // a request may be executed after the stated handling time
	Alike     bool // one reference, the caller's, for all generations: events don't show the generation
	Withdrawn bool // a person may withdraw it, and take that back
	Holds     bool // a person may put the operation on hold, and release it
	Enqueues  bool // callers may enqueue it
	Late      bool // … for half a step of the clock, and not after that
	Outlived  bool // clients that live when the journal is restored go on, and learn of it later

	Budget, Full Budget // of the short search and of the full one
}

// InFull returns the world with its full budget.
func (c Config) InFull() Config {
	c.Budget, c.Messages = c.Full, 3
	return c
}

// Provider is the provider's true behavior, which the terms may get wrong.
type Provider struct {
	Remembers providers.Memory
	Guard     bool
	Freezes   bool // stores a failure that does not say whether it had an effect
	Points    bool // answers a repeated success by naming the resource
	Unpromise bool // may forget a key at any time
}

// Budget bounds how often each kind of fault happens, and how often callers ask.
type Budget struct {
	Asks, Crashes, Pauses, Losses, Cancels, Operator int
	Takeovers                                        int // a live client's session is lost
	Failures                                         int // the journal fails to answer, or to record
	Local                                            int // an attempt is refused before it leaves
	ClockSteps                                       int // the clock goes ahead or back by a step of itself
	Restores                                         int
	Looks                                            int // a person looks at all the facts, and is right; with Finds, a look at the visible objects
	Finds                                            int // an event of an effect comes
}

var (
	everything = journal.Terms{Remembers: providers.Everything, Retention: retention, Guard: true}
	unguarded  = journal.Terms{Remembers: providers.Everything, Retention: retention, Handling: handling}
	clean      = journal.Terms{Remembers: providers.SuccessesCleanFailures, Retention: retention, Guard: true}
	lost       = journal.Terms{Remembers: providers.SuccessesLostAnswers, Retention: retention, Guard: true}
	worked     = journal.Terms{Handling: handling} // no key, and how long a request is worked on
	successes  = journal.Terms{Remembers: providers.Successes, Retention: retention, Guard: true}
)

// String returns the budget's parts in words.
func (b Budget) String() string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{b.Asks, "asks"}, {b.Crashes, "crashes"}, {b.Pauses, "pauses"}, {b.Losses, "losses"}, {b.Cancels, "ended contexts"},
		{b.Operator, "resolutions"}, {b.Takeovers, "lost sessions"}, {b.Failures, "journal failures"}, {b.Local, "local refusals"},
		{b.ClockSteps, "clock errors"}, {b.Restores, "restores"}, {b.Looks, "looks"}, {b.Finds, "events"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", part.what, part.n))
		}
	}
	return strings.Join(parts, ", ")
}
