package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// operations is one page.
type operations struct {
	Operations []operation `json:"operations"`
	Next       string      `json:"next,omitempty" doc:"what --after takes for the next page; left out: there is none"`
}

func (l *operations) lines() []any { return lines(l.Operations) }

func (l *operations) table(t *table) {
	if len(l.Operations) == 0 {
		t.line("no operations")
		return
	}
	t.row("HANDLE", "STATE", "OPERATION", "SCOPE", "PROVIDER", "CREATED", "DUE", "WHY")
	for i := range l.Operations {
		op := &l.Operations[i]
		t.row(op.Handle, op.State, op.title(), shown.Short(op.Scope, 20), shown.Text(op.Provider),
			t.time(op.CreatedAt), t.moment(op.DueAt), shown.Short(cmp.Or(op.NeedsAttention, op.Cause), 60))
	}
	if l.Next != "" {
		t.line("more: --after '" + l.Next + "'")
	}
}

// paging has the flags that select a list's page.
type paging struct {
	older  time.Duration
	oldest bool
	limit  int
	after  string
}

func (p *paging) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&p.older, "older-than", 0, "created longer ago than this, such as 48h")
	flags.BoolVar(&p.oldest, "oldest-first", false, "in the order of their creation")
	flags.IntVar(&p.limit, "limit", 50, "how many at most")
	flags.StringVar(&p.after, "after", "", "go on behind this handle, as the page before says")
}

// bounds returns the handles that the page lies between. 0 is none.
func (p *paging) bounds() (after, before int64, err error) {
	if p.limit < 1 || p.limit > 10000 {
		return 0, 0, usage("--limit %d: a page has 1 to 10000", p.limit)
	}
	if p.after == "" {
		return 0, 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(p.after, "#"), 10, 64)
	switch {
	case err != nil || n < 1:
		return 0, 0, usage("--after %s: it takes a handle such as #12", shown.Text(p.after))
	case p.oldest:
		return n, 0, nil
	}
	return 0, n, nil
}

// named returns the names' states.
func named[S fmt.Stringer](all []S, names []string) (states []S, err error) {
	for _, name := range names {
		i := slices.IndexFunc(all, func(state S) bool { return state.String() == name })
		if i < 0 {
			return nil, usage("--state %s: there are %s", shown.Text(name), listed(all, "and"))
		}
		states = append(states, all[i])
	}
	return states, nil
}

// listed returns all states' words.
func listed[S fmt.Stringer](all []S, last string) string {
	words := make([]string, len(all))
	for i, state := range all {
		words[i] = state.String()
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// selection has the flags that select operations.
type selection struct {
	states      []string
	scope       string
	provider    string
	undelivered bool
	steps       shown.Steps
	paging
}

func (c *command) lsCommand() *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use: "ls", Short: "List operations, newest first", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := s.filter(cmd)
			if err != nil {
				return err
			}
			return c.using(cmd.Context(), access{}, func(j store) error { return c.list(cmd.Context(), j, filter, s) })
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&s.states, "state", nil, listed(journal.States, "or")+"; several by commas")
	flags.StringVar(&s.scope, "scope", "", "of this scope alone; --scope= for those without one")
	flags.StringVar(&s.provider, "provider", "", "with this provider alone")
	flags.StringVar(&s.steps.Flow, "flow", "", "the steps of this flow alone: its name, or its handle (#12)")
	flags.StringVar(&s.steps.InboundKey, "inbound-key", "", "what the inbound request with this key began alone, the steps of its flows too")
	flags.BoolVar(&s.undelivered, "undelivered", false, "those with an outcome that is still to be delivered")
	s.paging.flags(cmd)
	return cmd
}

func (s *selection) filter(cmd *cobra.Command) (f journal.Filter, err error) {
	f = journal.Filter{Provider: s.provider, Undelivered: s.undelivered, Newest: !s.oldest}
	if cmd.Flags().Changed("scope") {
		f.Scope = &s.scope
	}
	if f.After, f.Before, err = s.bounds(); err == nil {
		f.States, err = named(journal.States, s.states)
	}
	return f, err
}

func (c *command) list(ctx context.Context, s store, filter journal.Filter, of selection) error {
	var before time.Time
	if of.older > 0 {
		before = c.at(s).Add(-of.older) // handles do not follow creation order
	}
	list, more, err := shown.Page(s.List(ctx, filter), of.limit, func(op *journal.Operation) bool {
		return (before.IsZero() || op.CreatedAt.Before(before)) && (!of.undelivered || op.Undelivered()) && of.steps.Has(op)
	}, c.operationOf)
	if err != nil {
		return err
	}
	said := &operations{Operations: list}
	if more {
		said.Next = list[of.limit-1].Handle
	}
	return c.say(said)
}
