package machine

import (
	"slices"

	"github.com/onceward/onceward/journal"
)

// maxRounds limits the earlier generations that are kept, the latest ones.
const maxRounds = 16

// left reports whether an attempt of that earlier generation may have left. Only such generations have a round, and
// nothing is kept of the oldest.
func left(op *journal.Operation, generation int) bool {
	return len(op.Rounds) == maxRounds && generation < op.Rounds[0].Generation || slices.ContainsFunc(op.Rounds, func(r journal.Round) bool { return r.Generation == generation })
}

// referenceOf returns a generation's reference, or "" if it is not kept.
func referenceOf(op *journal.Operation, generation int) string {
	for _, r := range op.Rounds {
		if r.Generation == generation {
			return r.Reference
		}
	}
	if generation == op.Generation {
		return op.Reference
	}
	return ""
}

// RoundBy returns the latest generation that has the value and may have been sent, and reports whether any generation
// has the value. If only the current generation has the value, RoundBy returns the current one, sent or not. By an
// object, the result may be the generation of the operation's answer, which must be loaded then. found does not depend
// on the answer.
func RoundBy(op *journal.Operation, by By, value string) (generation int, found bool) {
	if value == "" {
		return 0, false
	}
	if by == ByObject {
		return roundOfObject(op, value)
	}
	of := func(key, reference string) bool {
		return by == ByKey && key == value || by == ByReference && reference == value
	}
	if of(op.Key, op.Reference) {
		generation, found = op.Generation, true
		if op.MayHaveRun || op.State == journal.StateInFlight {
			return generation, true
		}
	}
	for _, r := range slices.Backward(op.Rounds) {
		if of(r.Key, r.Reference) {
			return r.Generation, true
		}
	}
	return generation, found
}

func roundOfObject(op *journal.Operation, object string) (int, bool) {
	for _, e := range slices.Backward(op.Evidence) {
		if slices.ContainsFunc(e.Objects(), func(o string) bool { return journal.SameObject(o, object) }) {
			return e.Generation, true
		}
	}
	switch {
	case op.Object == "" || !journal.SameObject(op.Object, object):
		return 0, false
	case op.Answer != nil:
		return op.Answer.Generation, true
	}
	return op.Generation, true
}

// Proves reports whether the object, in the account, proves the operation, or will once the claim has ended. An unknown
// account matches every account.
func Proves(op *journal.Operation, account, object string) bool {
	return MayBeIn(op, account) && (journal.SameObject(op.Object, object) || slices.ContainsFunc(op.Evidence, func(e journal.Evidence) bool { return e.Finding.TookEffect() && journal.SameObject(e.Object, object) }))
}

// MayBeIn reports whether the operation may belong to the account. An unknown account may be any.
func MayBeIn(op *journal.Operation, account string) bool {
	return !isName(account) || !isName(op.Account) || account == op.Account
}

// isName reports whether the account is known by a name of the provider's.
func isName(account string) bool { return account != "" && account != journal.OwnCredential }
