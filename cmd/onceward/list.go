package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// operations is a page of them.
type operations struct {
	Operations []operation `json:"operations"`
	Next       string      `json:"next,omitempty" doc:"what --after takes for the next page; left out: there is none"`
}

func (l *operations) lines() []any { return lines(l.Operations) }

func lines[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

func (l *operations) table(t *table) {
	if len(l.Operations) == 0 {
		t.line("no operations")
		return
	}
	t.row("HANDLE", "STATE", "OPERATION", "SCOPE", "PROVIDER", "CREATED", "DUE", "WHY")
	for i := range l.Operations {
		op := &l.Operations[i]
		t.row(op.Handle, op.State, op.title(), shown.Short(op.Scope, 20), shown.Text(op.Provider),
			t.time(op.CreatedAt), t.due(op), shown.Short(reason(op), 60))
	}
	if l.Next != "" {
		t.line("more: --after '" + l.Next + "'")
	}
}

func (t *table) due(op *operation) string {
	if op.DueAt == nil {
		return ""
	}
	return t.time(*op.DueAt)
}

func reason(op *operation) string {
	if op.NeedsAttention != "" {
		return op.NeedsAttention
	}
	return op.Cause
}

// selection has the flags that select operations.
type selection struct {
	states      []string
	scope       string
	provider    string
	older       time.Duration
	undelivered bool
	steps       shown.Steps
	limit       int
	after       string
	oldest      bool
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
	flags.StringSliceVar(&s.states, "state", nil, "pending, in_flight, completed, unknown or cancelled; several by commas")
	flags.StringVar(&s.scope, "scope", "", "of this scope alone; --scope= for those without one")
	flags.StringVar(&s.provider, "provider", "", "with this provider alone")
	flags.DurationVar(&s.older, "older-than", 0, "created longer ago than this")
	flags.StringVar(&s.steps.Flow, "flow", "", "the steps of this flow alone: its name, or its handle (#12)")
	flags.StringVar(&s.steps.InboundKey, "inbound-key", "", "what the inbound request with this key began alone, the steps of its flows too")
	flags.BoolVar(&s.undelivered, "undelivered", false, "those with an outcome that is still to be delivered")
	flags.BoolVar(&s.oldest, "oldest-first", false, "in the order of their creation")
	flags.IntVar(&s.limit, "limit", 50, "how many at most")
	flags.StringVar(&s.after, "after", "", "go on behind this handle, as the page before says")
	return cmd
}

func (s *selection) filter(cmd *cobra.Command) (f journal.Filter, err error) {
	if s.limit < 1 || s.limit > 10000 {
		return f, usage("--limit %d: a page has 1 to 10000", s.limit)
	}
	f = journal.Filter{Provider: s.provider, Undelivered: s.undelivered, Newest: !s.oldest}
	for _, name := range s.states {
		i := slices.IndexFunc(journal.States, func(state journal.State) bool { return state.String() == name })
		if i < 0 {
			return f, usage("--state %s: there are pending, in_flight, completed, unknown and cancelled", shown.Text(name))
		}
		f.States = append(f.States, journal.States[i])
	}
	if cmd.Flags().Changed("scope") {
		f.Scope = &s.scope
	}
	if s.after != "" {
		n, err := strconv.ParseInt(strings.TrimPrefix(s.after, "#"), 10, 64)
		if err != nil || n < 1 {
			return f, usage("--after %s: it takes a handle such as #12", shown.Text(s.after))
		}
		if s.oldest {
			f.After = n
		} else {
			f.Before = n
		}
	}
	return f, nil
}

func (c *command) list(ctx context.Context, s store, filter journal.Filter, of selection) error {
	var before time.Time
	if of.older > 0 {
		before = c.at(s).Add(-of.older)
		handle, err := shown.Before(ctx, s, before)
		if err != nil {
			return err
		}
		if filter.Before == 0 || handle < filter.Before {
			filter.Before = handle
		}
	}
	page, err := c.page(ctx, s, filter, of.limit, func(op *journal.Operation) bool {
		return (before.IsZero() || op.CreatedAt.Before(before)) && (!of.undelivered || op.Undelivered()) && of.steps.Has(op)
	})
	if err != nil {
		return err
	}
	return c.say(page)
}

// page reads one page of the operations that the filter selects and that fit.
func (c *command) page(ctx context.Context, s store, filter journal.Filter, limit int, fits func(*journal.Operation) bool) (*operations, error) {
	page := &operations{Operations: []operation{}}
	for op, err := range s.List(ctx, filter) {
		if err != nil {
			return nil, err
		}
		if !fits(&op) {
			continue
		}
		if len(page.Operations) == limit {
			page.Next = page.Operations[limit-1].Handle
			break
		}
		page.Operations = append(page.Operations, c.operationOf(&op))
	}
	return page, nil
}
