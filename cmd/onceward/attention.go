package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// maxAttention limits each kind's list.
const maxAttention = 1000

// attention is everything that needs attention.
type attention struct {
	Operations []operation `json:"operations" doc:"the operations that need attention, oldest first"`
	Flows      []flow      `json:"flows" doc:"the flows that need attention, oldest first"`
	Receipts   []receipt   `json:"receipts,omitempty" doc:"the receipts that need attention, oldest first; left out: there are none"`
	Events     []missed    `json:"events,omitempty" doc:"what needs attention of the lists of events that Run reads; left out: nothing"`
	More       bool        `json:"more" doc:"there are more than are listed"`
}

func (a *attention) lines() []any {
	return slices.Concat(lines(a.Operations), lines(a.Flows), lines(a.Receipts), lines(a.Events))
}

// missed is an event that fails, or a time whose events were not read.
type missed struct {
	Source string     `json:"source" doc:"the provider, with the scope and account of the list if it has them"`
	ID     string     `json:"id,omitempty" doc:"the event's, or a name for a time; what close takes; left out: no person can close it"`
	Type   string     `json:"type,omitempty" doc:"the event's; left out for a time"`
	At     time.Time  `json:"at" doc:"when the event happened, or when the time begins"`
	Until  *time.Time `json:"until,omitempty" doc:"when the time ends; left out for an event"`
	Since  time.Time  `json:"since" doc:"when it was noticed"`
	What   string     `json:"what" doc:"what happened"`
	Do     string     `json:"do" doc:"what to do"`
	Reason string     `json:"reason,omitempty" doc:"the last error of the handler; left out for a time"`
}

func (c *command) missedOf(m *shown.Missed) missed {
	return missed{m.Source, m.ID, m.Type, m.At.UTC(), moment(m.Until), m.Since.UTC(), m.What, m.Do, m.Reason}
}

func (t *table) missed(list []missed) {
	t.row("LIST OF", "EVENT", "TYPE", "AT", "SINCE", "WHAT HAPPENED")
	for i := range list {
		m := &list[i]
		t.row(shown.Short(m.Source, 40), shown.Short(m.ID, 40), shown.Short(m.Type, 40), t.time(m.At), t.time(m.Since), m.What)
		t.row("", "", "", "", "", "to do: "+m.Do)
		if m.Reason != "" {
			t.row("", "", "", "", "", "reason: "+m.Reason)
		}
	}
}

// closed is close's output.
type closed struct {
	Closed missed `json:"closed" doc:"the entry as it stood"`
}

func (d *closed) table(t *table) {
	t.line("closed: " + d.Closed.ID + " of " + d.Closed.Source)
}

func (c *command) closeCommand() *cobra.Command {
	source, sure := "", false
	cmd := &cobra.Command{
		Use: "close ID", Short: "Drop a listed event, or a gap, from what needs attention, after you have dealt with it",
		Long: "close drops an entry that attention shows under LIST OF: an event that fails, or a time whose events are too old to be read.\n" +
			"The application's Run never hands a closed event to its handler again.",
		Args: exactly(1, "the ID of an event or gap, as attention shows it"),
		RunE: c.runs(access{write: true}, func(ctx context.Context, s store, args []string) error {
			id := shown.Text(args[0])
			if err := c.confirm(sure, "The entry is dropped, and that can't be taken back", id); err != nil {
				return err
			}
			m, err := shown.CloseMissed(ctx, s, source, id, c.at(s))
			switch {
			case errors.Is(err, journal.ErrNotFound):
				return notFound("attention shows no listed event or gap %s that can be closed", id)
			case errors.Is(err, shown.ErrSeveralMissed):
				return usage("several lists have an entry %s: add --list, with the text that attention shows under LIST OF", id)
			case err != nil:
				return err
			}
			return c.say(&closed{c.missedOf(&m)})
		}),
	}
	cmd.Flags().StringVar(&source, "list", "", "whose entry it is, if several lists have the ID: the text under LIST OF")
	cmd.Flags().BoolVar(&sure, "yes", false, "don't ask")
	return cmd
}

func (a *attention) table(t *table) {
	if len(a.Operations)+len(a.Flows)+len(a.Receipts)+len(a.Events) == 0 {
		t.line("nothing needs attention")
		return
	}
	if len(a.Operations) > 0 {
		t.row("HANDLE", "STATE", "OPERATION", "SCOPE", "PROVIDER", "SINCE", "WHAT HAPPENED")
	}
	for i := range a.Operations {
		op := &a.Operations[i]
		since := op.UpdatedAt
		if op.SettledAt != nil {
			since = *op.SettledAt
		}
		t.row(op.Handle, op.State, op.title(), shown.Short(op.Scope, 20), shown.Text(op.Provider), t.time(since), op.Advice.what())
		t.advice(op.Advice, op.NeedsAttention)
	}
	if len(a.Flows) > 0 {
		t.flush()
		t.row("FLOW", "STATE", "NAME", "SCOPE", "FUNCTION", "SINCE", "WHAT HAPPENED")
	}
	for i := range a.Flows {
		f := &a.Flows[i]
		t.row(f.Handle, f.State, shown.Short(f.ID, 40), shown.Short(f.Scope, 20), shown.Text(f.Function), t.time(f.UpdatedAt), f.Advice.what())
		t.advice(f.Advice, f.NeedsAttention)
	}
	if len(a.Receipts) > 0 {
		t.flush()
		t.receipts(a.Receipts)
	}
	if len(a.Events) > 0 {
		t.flush()
		t.missed(a.Events)
	}
	if a.More {
		t.line("and more")
	}
}

func (c *command) attentionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attention", Short: "List everything that needs attention: operations, flows, receipts and listed events", Args: exactly(0, ""),
		RunE: c.reads(func(ctx context.Context, s store, _ []string) error {
			now := c.at(s)
			all, more := &attention{}, false
			var err error
			if all.Operations, all.More, err = shown.Page(s.List(ctx, journal.Filter{NeedsAttention: now}), maxAttention, nil, c.operationOf); err != nil {
				return err
			}
			if all.Flows, more, err = shown.Page(shown.AttentionFlows(ctx, s, now), maxAttention, nil, c.flowOf); err != nil {
				return err
			}
			all.More = all.More || more
			n, err := countReceipts(ctx, s)
			if err != nil {
				return err
			}
			if n != nil && n.Reserved > 0 {
				reserved := journal.ReceiptFilter{States: []journal.ReceiptState{journal.ReceiptReserved}}
				if all.Receipts, more, err = shown.Page(s.ListReceipts(ctx, reserved), maxAttention, nil, c.receiptOf); err != nil {
					return err
				}
				all.More = all.More || more
			}
			if all.Events, more, err = shown.Page(shown.MissedEvents(ctx, s, now), maxAttention, nil, c.missedOf); err != nil {
				return err
			}
			all.More = all.More || more
			return c.say(all)
		}),
	}
}
