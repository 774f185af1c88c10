package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// sealStatus is seal status's output.
type sealStatus struct {
	Keys  []sealKey `json:"keys" doc:"in the order of their first use, then those of --keys that have sealed nothing"`
	Clear int64     `json:"clear" doc:"payloads in clear"`
	ToDo  []string  `json:"to_do" doc:"what to do next"`
}

// sealKey is a key from a journal or from --keys.
type sealKey struct {
	ID    string `json:"id"`
	Boxes int64  `json:"boxes" doc:"payloads that the key has sealed; a request or an answer counts as one with its body"`
	Place int    `json:"place,omitempty" doc:"in --keys, from 1; the first key seals; left out: --keys lacks the key, or is not given"`
}

func (s *sealStatus) lines() []any { return lines(s.Keys) }

func (s *sealStatus) table(t *table) {
	t.row("KEY", "PAYLOADS", "PLACE IN --keys")
	for _, k := range s.Keys {
		place := ""
		if k.Place > 0 {
			place = text(k.Place)
		}
		t.row(shown.Text(k.ID), text(k.Boxes), place)
	}
	t.row("in clear", text(s.Clear))
	t.flush()
	for _, one := range s.ToDo {
		t.line(one)
	}
}

// sealStatusOf adds the keys from --keys, and what to do. ring has their IDs.
func sealStatusOf(has journal.SealStatus, ring []string) *sealStatus {
	s := &sealStatus{Clear: has.Clear, ToDo: []string{}, Keys: []sealKey{}}
	ids := slices.Clone(has.Keys)
	for id := range has.Boxes { // a damaged journal may lack a key's name
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids[len(has.Keys):])
	for _, id := range ring {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		s.Keys = append(s.Keys, sealKey{id, has.Boxes[id], 1 + slices.Index(ring, id)})
	}
	s.advise(has.Keys, len(ring) > 0)
	return s
}

// advise says what to do next. used has the keys that have sealed before.
func (s *sealStatus) advise(used []string, withRing bool) {
	do := func(format string, args ...any) { s.ToDo = append(s.ToDo, fmt.Sprintf(format, args...)) }
	switch boxed := slices.ContainsFunc(s.Keys, func(k sealKey) bool { return k.Boxes > 0 }); {
	case len(used) == 0 && boxed:
		do("Payloads are sealed, and the journal's list of keys is gone: another program has changed the journal. Restore a backup.")
		return
	case len(used) == 0:
		do("The journal is not sealed: programs seal by Options.Seal.")
		return
	}
	for _, k := range s.Keys {
		id := shown.Text(k.ID)
		switch {
		case k.Boxes > 0 && withRing && k.Place == 0:
			do("%s is not in --keys, and %d payloads need it: keep it.", id, k.Boxes)
		case k.Boxes > 0:
		case k.Place == 1:
			do("%s seals what comes next.", id)
		case !slices.Contains(used, k.ID):
			do("%s has sealed nothing yet. To rotate, make it the first key of every program, once each has it as the second.", id)
		default:
			do("%s has sealed none of the payloads. Forget it once it is first in no program's ring, and no backup that you keep needs it.", id)
		}
	}
	if s.Clear > 0 {
		do("%d payloads are in clear: programs need Ring.ReadClear until none is left. Each goes when Config.Keep has passed.", s.Clear)
	} else {
		do("No payload is in clear: programs do not need Ring.ReadClear.")
	}
}

func (c *command) sealCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "seal", Short: "Show which keys the journal's payloads need",
		Args: exactly(1, "status"), RunE: func(*cobra.Command, []string) error { return usage("there is status") },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "status", Short: "Count sealed payloads by key, and clear ones, and say what to do next", Args: exactly(0, ""),
		Long: "status reads all records, and needs no key. With --keys it also says which keys that file lacks.",
		RunE: c.reads(func(ctx context.Context, s store, _ []string) error {
			has, err := s.SealStatus(ctx)
			if err != nil {
				return fmt.Errorf("the payloads were not all counted, so forget no key: %w", err)
			}
			return c.say(sealStatusOf(has, c.ring.IDs()))
		}),
	})
	return cmd
}
