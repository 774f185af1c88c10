package providertest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// AssertSettledTruly fails the test, without ending it, unless the journal's settled operations of this
// provider agree with the ledger:
//
//   - A completed operation has exactly one effect, over all its generations, and one more for each second effect that the journal
//     counted. Its answer, its pointer and the object that proves it name that effect's object, in the journal's account.
//   - An operation completed by a refusal has no effect, or one whose object was turned into Refused.
//   - A cancelled operation never has an effect.
//
// Call it at the end of a test. Requests of [Straggle] that are still on their way arrive first, at their
// time on the server's clock.
//
// An operation's effects are those under its keys. Without a key they are found by its reference if that was
// made for it, otherwise by the bytes of its request: each completed operation with these bytes has one
// effect. A pending, in-flight or unknown operation may have none or one. It reports whether the assertion
// holds.
func (s *Server) AssertSettledTruly(t testing.TB, j journal.Journal) bool {
	t.Helper()
	s.arriveAll()
	var wrong []string
	alike := map[string]*alikes{}
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Errorf("the journal can't be read: %v", err)
			return false
		}
		if op.Provider != cmp.Or(s.provider.KeysUnder, s.provider.Name) {
			continue
		}
		ref := op.Ref
		op, err := j.Get(t.Context(), ref)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			continue // removed since
		case err != nil:
			t.Errorf("the journal can't be read: %v", err)
			return false
		}
		effects, of, told := s.effectsOf(&op)
		if !told {
			if alike[of] == nil {
				alike[of] = &alikes{effects: effects}
			}
			alike[of].add(&op, s.wants(&op))
			continue
		}
		if untruth := s.untruth(&op, effects); untruth != "" {
			wrong = append(wrong, fmt.Sprintf("%s is %v: %s", title(&op), op.State, untruth))
		}
	}
	for _, a := range alike {
		if untruth := a.untruth(); untruth != "" {
			wrong = append(wrong, untruth)
		}
	}
	if len(wrong) == 0 {
		return true
	}
	slices.Sort(wrong)
	t.Errorf("the journal does not say the truth:\n%s\n%s", strings.Join(wrong, "\n"), s.Ledger())
	return false
}

// arriveAll has every straggler arrive.
func (s *Server) arriveAll() {
	for {
		s.mu.Lock()
		var last *due
		for _, d := range s.dues {
			if d.straggler && (last == nil || d.at.After(last.at)) {
				last = d
			}
		}
		now := s.now()
		s.mu.Unlock()
		if last == nil {
			return
		}
		s.Advance(last.at.Sub(now))
	}
}

func title(op *journal.Operation) string {
	name := fmt.Sprintf("%q", op.ID)
	if op.Scope != "" {
		name += fmt.Sprintf(", scope %q", op.Scope)
	}
	if op.Parent != "" {
		name += fmt.Sprintf(", parent %q", op.Parent)
	}
	return name
}

// effectsOf returns the possible effects of an operation, the mark that they share, and whether the mark
// belongs to no other operation.
func (s *Server) effectsOf(op *journal.Operation) (found []Effect, of string, told bool) {
	keys, references := []string{op.Key}, []string{}
	if op.ReferenceOurs {
		references = append(references, op.Reference)
	}
	for _, round := range op.Rounds {
		keys = append(keys, round.Key)
		if op.ReferenceOurs {
			references = append(references, round.Reference)
		}
	}
	path := ""
	if to, err := url.Parse(op.Request.URL); err == nil {
		path = to.Path
	}
	of = op.Request.Method + " " + path + "\n" + string(op.Request.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.effects {
		reference, has := s.made[i].reference()
		switch {
		case op.Key != "":
			if !slices.Contains(keys, e.Key) {
				continue
			}
		case len(references) > 0:
			if !has || !slices.Contains(references, fmt.Sprint(reference)) {
				continue
			}
		case e.Key != "" || of != e.Method+" "+e.Path+"\n"+string(e.Body):
			continue
		}
		if op.Account == "" || op.Account == journal.OwnCredential || e.Account == op.Account {
			found = append(found, e)
		}
	}
	return found, of, op.Key != "" || len(references) > 0
}

// wanted is how many effects an operation may have.
type wanted struct{ least, most int }

// wants says how many effects an operation has if the journal is right.
func (s *Server) wants(op *journal.Operation) wanted {
	switch {
	case op.State == journal.StateCancelled:
		return wanted{0, 0}
	case op.State != journal.StateCompleted:
		return wanted{0, 1 + op.SecondEffects}
	case s.refused(op):
		return wanted{0, op.SecondEffects}
	case op.Answer == nil && op.Object == "": // reaped: it may have been a refusal
		return wanted{0, 1 + op.SecondEffects}
	}
	return wanted{1, 1 + op.SecondEffects}
}

// refused reports whether an operation's answer says that nothing took effect.
func (s *Server) refused(op *journal.Operation) bool {
	a := op.Answer
	if a == nil || a.Refused || a.Status >= http.StatusBadRequest {
		return a != nil
	}
	for i := range s.provider.Endpoints {
		e := &s.provider.Endpoints[i]
		if e.Pattern != op.Endpoint || s.Manner == nil {
			continue
		}
		failed := s.Manner(*e).Failed
		if failed != nil && failed(Answer{Status: a.Status, Header: a.Header, Body: a.Body}) {
			return true
		}
	}
	return false
}

// untruth returns the first false statement of an operation's record, or "".
func (s *Server) untruth(op *journal.Operation, effects []Effect) string {
	lasting := slices.DeleteFunc(slices.Clone(effects), func(e Effect) bool { return e.State == providers.Refused })
	if want := s.wants(op); len(lasting) < want.least || len(lasting) > want.most {
		return fmt.Sprintf("it has %d effects, not %s", len(lasting), want)
	}
	if op.State != journal.StateCompleted || len(effects) == 0 {
		return ""
	}
	var made []string
	for _, e := range effects {
		made = append(made, e.Object)
	}
	said := []string{}
	if op.Object != "" {
		said = append(said, idIn(op.Object, made))
	}
	if a := op.Answer; a != nil && a.Pointer != "" {
		said = append(said, idIn(a.Pointer, made))
	}
	if a := op.Answer; a != nil && a.Whole() && a.Status < http.StatusMultipleChoices {
		if id := s.idOf(Answer{Header: a.Header, Body: a.Body}); id != "" {
			said = append(said, id)
		}
	}
	for _, id := range said {
		if !slices.Contains(made, id) {
			return fmt.Sprintf("it names %q, and what it made is %q", id, made)
		}
	}
	return ""
}

// idIn is the one of these ids that a name of an object, a kind and an id, ends with; else
// all of it.
func idIn(name string, ids []string) string {
	for _, id := range ids {
		if before, is := strings.CutSuffix(name, id); is && (before == "" || strings.ContainsAny(before[len(before)-1:], " /:")) {
			return id
		}
	}
	return name
}

func (w wanted) String() string {
	if w.least == w.most {
		return fmt.Sprint(w.least)
	}
	return fmt.Sprintf("%d to %d", w.least, w.most)
}

// alikes are operations that can't be distinguished, and their effects.
type alikes struct {
	names   []string
	want    wanted
	effects []Effect
}

func (a *alikes) add(op *journal.Operation, want wanted) {
	name := title(op) + " is " + op.State.String()
	if op.Object != "" {
		name += " by " + op.Object
	}
	a.names = append(a.names, name)
	a.want.least += want.least
	a.want.most += want.most
}

func (a *alikes) untruth() string {
	lasting := slices.DeleteFunc(slices.Clone(a.effects), func(e Effect) bool { return e.State == providers.Refused })
	if len(lasting) >= a.want.least && len(lasting) <= a.want.most {
		return ""
	}
	slices.Sort(a.names)
	return fmt.Sprintf("%s: they have %d effects, not %v", strings.Join(a.names, ", "), len(lasting), a.want)
}
