package model

import (
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

var (
	remembersAll   = Provider{Remembers: providers.Everything, Guard: true, Freezes: true}
	cleanFailures  = Provider{Remembers: providers.SuccessesCleanFailures, Guard: true}
	successesAlone = Provider{Remembers: providers.Successes, Guard: true}
	lostAnswers    = Provider{Remembers: providers.SuccessesLostAnswers, Guard: true}
	noGuard        = Provider{Remembers: providers.Everything}
	forgetful      = Provider{Remembers: providers.Everything, Guard: true, Unpromise: true}
)

// say lists the terms that callers give, in the order of a process's releases.
func say(terms ...journal.Terms) []journal.Terms { return terms }

// shown is a provider that remembers no key. Its objects are looked for.
var shown = Provider{Remembers: providers.Nothing}

// Worlds are the worlds to explore. Every test run explores each configuration within its short budget, and on demand
// within its full one.
var Worlds = []Config{
	{
		Name: "no key", About: "The endpoint takes no key.",
		Clients: 2, Messages: 2, Keyless: true, Terms: say(journal.Terms{}),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Cancels: 1, Operator: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Operator: 1, Local: 1},
	},
	{
		Name: "no key, idempotent method", About: "An unnamed PUT to an endpoint that takes no key.",
		Clients: 2, Messages: 3, Keyless: true, PUT: true, Naming: journal.Generated, Terms: say(journal.Terms{}),
		Budget: Budget{Asks: 1, Crashes: 1, Losses: 2, Cancels: 1, Local: 1},
		Full:   Budget{Asks: 1, Crashes: 2, Losses: 3, Cancels: 1, Local: 1, Operator: 1, Takeovers: 1},
	},
	{
		Name: "unknown retention", About: "Everything is recognised, until the provider forgets it: at any time.",
		Clients: 2, Messages: 2, Provider: forgetful, Terms: say(journal.Terms{Remembers: providers.Everything, Guard: true}),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Operator: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Operator: 1},
	},
	{
		Name: "keyed, remembers successes only", About: "A failure may have had an effect, and the same key executes again.",
		Clients: 2, Messages: 2, Provider: successesAlone, Terms: say(successes),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Operator: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Operator: 1, Takeovers: 1},
	},
	{
		Name: "keyed, remembers successes, failures are clean", About: "The same key executes again after a failure, which left nothing behind.",
		Clients: 2, Messages: 2, Clock: true, Provider: cleanFailures, Terms: say(clean),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Pauses: 1},
	},
	{
		Name: "keyed, remembers lost answers", About: "The same key executes again after a failure that was answered, and may have had an effect; an attempt without any answer is recognised.",
		Clients: 2, Messages: 2, Provider: lostAnswers, Terms: say(lost),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 2},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 3, Cancels: 1, Local: 1},
	},
	{
		Name: "a background run is stopped, and a second asker leaves", About: "The context ends of whoever is at it: its first caller, another one, Resume or Run.",
		Clients: 2, Messages: 2, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Cancels: 1, Local: 1},
		Full:   Budget{Asks: 3, Cancels: 1, Local: 1, Crashes: 1, Losses: 1},
	},
	{
		Name: "the key moves on the wire", About: "Two releases side by side put the key in different headers, and the provider reads both.",
		Clients: 2, Messages: 2, Forms: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 2, Local: 1},
	},
	{
		Name: "a table that was corrected: the retention", About: "A release says a month, the next one, after which time passes, a day; the provider remembers for a day.",
		Clients: 2, Messages: 2, Clock: true, Corrected: true, Provider: remembersAll,
		Terms:  say(journal.Terms{Remembers: providers.Everything, Retention: 30 * retention, Guard: true}, everything),
		Budget: Budget{Asks: 2, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 2, Local: 1},
	},
	{
		Name: "a table that was corrected: the memory", About: "A release says that everything is recognised, the next one successes alone, which is so by then.",
		Clients: 2, Messages: 2, Corrected: true, Provider: successesAlone, Terms: say(everything, successes),
		Budget: Budget{Asks: 2, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 2, Local: 1},
	},
	{
		Name: "resolved by what was seen", About: "Somebody looks at the operation and at the provider, and two of them say what they saw, each when they get to it; it may be on hold meanwhile.",
		Clients: 2, Messages: 2, Holds: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Losses: 1, Looks: 1, Operator: 2},
		Full:   Budget{Asks: 2, Crashes: 1, Losses: 2, Looks: 1, Operator: 3},
	},
	{
		Name: "no in-flight guard", About: "A second request is executed beside the first; two hours are stated as the longest that one is worked on.",
		Clients: 2, Messages: 2, Clock: true, Provider: noGuard, Terms: say(unguarded),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Pauses: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Pauses: 1, Local: 1},
	},
	{
		Name: "no in-flight guard, nothing stated", About: "A second request is executed beside the first, for as long as it takes.",
		Clients: 2, Messages: 2, Clock: true, Provider: noGuard,
		Terms:  say(journal.Terms{Remembers: providers.Everything, Retention: retention}),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Pauses: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Pauses: 1},
	},
	{
		Name: "terms that widen: the guard", About: "A later release takes the provider to have an in-flight guard, which it has not.",
		Clients: 2, Messages: 2, Clock: true, Provider: noGuard, Terms: say(unguarded, everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Local: 1},
	},
	{
		Name: "terms that widen: the memory", About: "A later release takes the provider to remember everything; it remembers successes only.",
		Clients: 2, Messages: 2, Provider: successesAlone, Terms: say(successes, everything),
		Budget: Budget{Asks: 3, Crashes: 1, Losses: 1, Local: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Local: 1},
	},
	{
		Name: "terms that widen: the retention", About: "A later release takes the provider to remember for a month; it does so for a day.",
		Clients: 2, Messages: 2, Clock: true, Provider: remembersAll,
		Terms:  say(everything, journal.Terms{Remembers: providers.Everything, Retention: 30 * retention, Guard: true}),
		Budget: Budget{Asks: 3, Crashes: 1, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 1, Local: 1},
	},
	{
		Name: "carried key", About: "An unnamed operation whose key the request already had: sent in the background only where its caller was told nothing.",
		Clients: 2, Messages: 2, Clock: true, Naming: journal.Carried, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 1, Cancels: 1, Local: 1, Pauses: 1},
	},
	{
		Name: "generated key", About: "An unnamed operation under a key of its own: one call, and what Resume makes of it.",
		Clients: 2, Messages: 2, Clock: true, Naming: journal.Generated, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 1, Crashes: 2, Losses: 1, Cancels: 1},
		Full:   Budget{Asks: 1, Crashes: 3, Losses: 2, Cancels: 1, Local: 1, Operator: 1, Pauses: 1},
	},
	{
		Name: "named ones only", About: "The same key, and clients that leave unnamed operations alone.",
		Clients: 2, Messages: 2, Clock: true, Naming: journal.Carried, NamedOnly: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Local: 1},
	},
	{
		Name: "a session is lost", About: "A client's session is taken over while it lives.",
		Clients: 2, Messages: 2, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 1, Losses: 1, Takeovers: 1},
		Full:   Budget{Asks: 2, Crashes: 1, Losses: 2, Takeovers: 1, Cancels: 1},
	},
	{
		Name: "a session is lost, and somebody resolves", About: "An operation whose client lives on is resolved, and its answer comes after all.",
		Clients: 2, Messages: 2, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 1, Takeovers: 1, Operator: 1},
		Full:   Budget{Asks: 2, Losses: 1, Takeovers: 1, Operator: 1},
	},
	{
		Name: "keyed, remembers all", About: "A provider that recognises whatever a key led to, and somebody who may say what became of the operation.",
		Clients: 2, Messages: 2, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Operator: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Operator: 1},
	},
	{
		Name: "keyed, a closing window", About: "The same while time passes, and a client may be paused.",
		Clients: 2, Messages: 2, Clock: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Pauses: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 2, Cancels: 1, Pauses: 1},
	},
	{
		Name: "keyed, a closing window, and somebody resolves", About: "Both.",
		Clients: 2, Messages: 2, Clock: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 1, Crashes: 1, Operator: 1},
		Full:   Budget{Asks: 2, Crashes: 1, Losses: 1, Operator: 1, Pauses: 1},
	},
	{
		Name: "a provider that points", About: "A repeat is answered by naming what the first request made.",
		Clients: 2, Messages: 2, Provider: Provider{Remembers: providers.Everything, Guard: true, Freezes: true, Points: true}, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 2},
		Full:   Budget{Asks: 2, Crashes: 2, Losses: 2, Takeovers: 1},
	},
	{
		Name: "patient callers", About: "Calls with deadlines of days: a run waits and is paused beyond the window.",
		Clients: 1, Messages: 2, Clock: true, Patient: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 1, Crashes: 1, Losses: 1, Pauses: 1},
		Full:   Budget{Asks: 2, Crashes: 2, Losses: 2, Pauses: 1, Cancels: 1},
	},
	{
		Name: "patient callers, no in-flight guard", About: "A run waits for the handling time to pass, and goes on.",
		Clients: 1, Messages: 2, Clock: true, Patient: true, Provider: noGuard, Terms: say(unguarded),
		Budget: Budget{Asks: 1, Crashes: 1, Losses: 1, Pauses: 1},
		Full:   Budget{Asks: 2, Crashes: 2, Losses: 2, Pauses: 1, Cancels: 1},
	},
	{
		Name: "the journal fails", About: "A Begin that fails may have been recorded, and an end that can't be recorded is kept in memory.",
		Clients: 2, Messages: 2, Clock: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Failures: 1},
		Full:   Budget{Asks: 2, Crashes: 2, Losses: 2, Cancels: 1, Failures: 1},
	},
	{
		Name: "another request under the name", About: "Callers ask for another request under the name.",
		Clients: 2, Messages: 2, Others: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Local: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 1, Local: 1, Operator: 1, Cancels: 1},
	},
	{
		Name: "another request under the carried key", About: "The next generation keeps the key.",
		Clients: 2, Messages: 2, Clock: true, Others: true, Naming: journal.Carried, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Losses: 1, Operator: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 1, Local: 1, Operator: 1},
	},
	{
		Name: "restored", About: "The journal is restored from a backup and adopted.",
		Clients: 1, Messages: 2, Clock: true, Backups: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 1, Losses: 1, Local: 1, Restores: 1},
		Full:   Budget{Asks: 2, Losses: 1, Operator: 1, Restores: 1},
	},
	{
		Name: "reaped", About: "Outcomes are delivered to Outcomes.Handle, and reaped a day after.",
		Clients: 1, Messages: 2, Clock: true, Reaps: true, Outcomes: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 1, Operator: 1},
	},
	{
		Name: "reaped, unnamed", About: "The same of an operation with a carried key, which leaves no tombstone.",
		Clients: 1, Messages: 2, Clock: true, Reaps: true, Outcomes: true, Naming: journal.Carried, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 1, Cancels: 1},
	},
	{
		Name: "a clock that is wrong", About: "The clock goes ahead or back by half a day, and is set right.",
		Clients: 1, Messages: 2, Clock: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Losses: 1, ClockSteps: 1},
		Full:   Budget{Asks: 3, Crashes: 2, Losses: 1, Cancels: 1, ClockSteps: 2},
	},
	{
		Name: "event before response", About: "A signed event of what it made may come before the answer, or after whoever waited for that has gone.",
		Clients: 2, Messages: 2, Finds: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Finds: 1},
		Full:   Budget{Asks: 2, Crashes: 2, Losses: 2, Cancels: 1, Finds: 2},
	},
	{
		Name: "the program's own look-up", About: "The endpoint takes no key. The program's own look-up sees what took effect, and says otherwise that nothing was executed.",
		Clients: 2, Messages: 2, Clock: true, Keyless: true, Finds: true, Provider: shown, Terms: say(worked),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Looks: 2},
		Full:   Budget{Asks: 2, Crashes: 1, Losses: 2, Looks: 3, Finds: 1},
	},
	{
		Name: "absent, then late arrival", About: "The stated handling time is wrong: a request is executed after the program's own look-up said that it was not.",
		Clients: 2, Messages: 2, Clock: true, Keyless: true, Finds: true, Straggles: true, Provider: shown, Terms: say(worked),
		Budget: Budget{Asks: 2, Losses: 1, Looks: 2, Finds: 1},
		Full:   Budget{Asks: 2, Crashes: 1, Losses: 1, Looks: 3, Finds: 2},
	},
	{
		Name: "two generations, one reference", About: "Somebody resolves by hand, and events don't tell which generation made what.",
		Clients: 2, Messages: 2, Keyless: true, Finds: true, Alike: true, Provider: shown, Terms: say(journal.Terms{}),
		Budget: Budget{Asks: 2, Losses: 1, Operator: 1, Finds: 2},
		Full:   Budget{Asks: 2, Crashes: 1, Losses: 2, Operator: 2, Finds: 2},
	},
	{
		Name: "withdrawn", About: "Somebody says that it is not wanted any more, and may change their mind.",
		Clients: 2, Messages: 2, Finds: true, Withdrawn: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Operator: 2, Finds: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 2, Operator: 3, Finds: 1},
	},
	{
		Name: "enqueued", About: "Callers enqueue it with writes of their own, or ask for it, and it is sent by whoever comes to it first.",
		Clients: 2, Messages: 2, Enqueues: true, Others: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1, Cancels: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 1, Cancels: 1},
	},
	{
		Name: "enqueued, until a time", About: "It is not to be sent after half a step of the clock, and Outcomes.Handle is told what became of it.",
		Clients: 2, Messages: 2, Clock: true, Outcomes: true, Enqueues: true, Late: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Crashes: 1, Losses: 1},
		Full:   Budget{Asks: 3, Crashes: 1, Losses: 1, Local: 1},
	},
	{
		Name: "the database goes back", About: "What was committed last is lost while clients live: their sessions are, too, and they learn of it later.",
		Clients: 2, Messages: 2, Backups: true, Outlived: true, Provider: remembersAll, Terms: say(everything),
		Budget: Budget{Asks: 2, Restores: 1},
		Full:   Budget{Asks: 2, Crashes: 1, Losses: 1, Local: 1, Restores: 1},
	},
}
