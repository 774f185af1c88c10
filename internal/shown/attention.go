package shown

import (
	"cmp"
	"time"

	"github.com/onceward/onceward/journal"
)

// Attention tells an operator why an operation or flow needs attention. Attention is zero if the operation or flow
// needs none.
type Attention struct {
	What   string // what happened
	Check  string // what to look at first
	Do     string // what to do then
	Reason string // the record's own words, for a developer
}

// AttentionOf returns what to tell an operator about an operation at that time.
func AttentionOf(op *journal.Operation, now time.Time) Attention {
	reason := op.NeedsAttention(now)
	if reason == "" {
		return Attention{}
	}
	a := attentionOf(op, cmp.Or(Text(op.Provider), "the provider"))
	a.Reason = Text(reason)
	return a
}

const (
	findIt    = "find it there by its key, its reference, or its amount and time"
	resolveIt = "resolve it: as executed if it is there, and as not executed only if it surely is not"
)

func attentionOf(op *journal.Operation, provider string) Attention {
	onlyItsCaller := op.BodyWithheld || op.Naming != journal.Named && op.Told
	switch {
	case op.SecondEffects > 0:
		return Attention{
			What:  "it took effect more than once",
			Check: "compare the objects in its evidence at " + provider,
			Do:    "reverse the extra effect there (refund, cancel), and keep its number",
		}
	case op.State == journal.StateUnknown && op.Disputed:
		return Attention{
			What:  "what was found about it disagrees: it may have taken effect twice, or against a decision",
			Check: "look at " + provider + " which of the objects in its evidence are its own",
			Do:    "reverse any extra effect there, and resolve the operation with the object that stays",
		}
	case op.State == journal.StateUnknown && op.Resolved != nil && op.Resolved.Resolution == journal.Hold:
		return Attention{
			What:  "an operator put it on hold",
			Check: "see who did and why, in its history",
			Do:    "reinstate it to have it sent by the rules, or resolve it",
		}
	case op.State == journal.StateUnknown && op.Attention == "":
		return Attention{
			What:  "it may have taken effect, and no process looks for it",
			Check: "see that a process with Config.Reconcile and Run is up",
			Do:    "start one; or find the operation at " + provider + ", and resolve it",
		}
	case op.State == journal.StateUnknown:
		return Attention{
			What:  "it may have taken effect, and no look-up can tell any more",
			Check: "go to " + provider + ", and " + findIt,
			Do:    resolveIt,
		}
	case op.State == journal.StatePending && op.Attention != "" && onlyItsCaller:
		return Attention{
			What:  "its caller got an error and never asked again; it may have taken effect",
			Check: "go to " + provider + ", and " + findIt,
			Do:    "have the caller ask again, which is safe; or resolve it",
		}
	case op.State == journal.StatePending && op.Attention != "":
		return Attention{
			What:  "no attempt for a day has brought an answer",
			Check: "see whether " + provider + " is up, and takes the credential of the process",
			Do:    "mend the credential or wait for the provider: it is sent by itself then; if it is not wanted any more, withdraw it",
		}
	case op.State == journal.StatePending:
		return Attention{
			What:  "it was due a day ago, and no process sends it",
			Check: "see that a process runs Run, with the table of " + provider + " and its credential",
			Do:    "start one, or add what it lacks",
		}
	case op.State == journal.StateInFlight:
		return Attention{
			What:  "a process began to send it, and has not ended that",
			Check: "see whether that process lives, and whether another one has been up for a minute",
			Do:    "keep a process with Run up: it takes over what dead ones held; end a process that hangs",
		}
	}
	return Attention{
		What:  "what was found about it contradicts its recorded outcome",
		Check: "compare its evidence with its answer at " + provider,
		Do:    "put right what the outcome led to in your own books, and reverse an effect that is not wanted",
	}
}

// AttentionOfFlow returns what to tell an operator about a flow at that time.
func AttentionOfFlow(f *journal.Flow, now time.Time) Attention {
	reason := f.NeedsAttention(now)
	a := Attention{
		What:  "it is due, and no process runs it",
		Check: "see that a process with its function and version runs Run",
		Do:    "start one, or keep it up for longer",
	}
	switch {
	case reason == "":
		return Attention{}
	case f.State == journal.FlowStateSetAside:
		a = Attention{
			What:  "it failed, and is set aside until a person acts",
			Check: "read its reason, and its history of failures",
			Do:    "mend the cause and retry it, or give it up, which undoes its steps",
		}
	case f.PutOff():
		a = Attention{
			What:  "each of its runs for a day was put off",
			Check: "read what it lacks: mostly a credential",
			Do:    "add that: it goes on by itself then",
		}
	case f.State == journal.FlowStateRunning:
		a = Attention{
			What:  "its run takes long, or the process that ran it has died",
			Check: "see whether that process lives, and whether another one with the flow's function and version has been up for a minute",
			Do:    "keep such a process with Run up: it takes over what dead ones held",
		}
	}
	a.Reason = Text(reason)
	return a
}
