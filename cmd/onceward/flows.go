package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// flow is one flow.
type flow struct {
	Handle     string     `json:"handle" doc:"its number among the flows of this journal"`
	Scope      string     `json:"scope,omitempty"`
	Parent     string     `json:"parent,omitempty"`
	ID         string     `json:"id" doc:"its name"`
	InboundKey string     `json:"inbound_key,omitempty" doc:"of the inbound request that began it; shortened unless --full-keys"`
	Function   string     `json:"function,omitempty"`
	Version    int        `json:"version"`
	State      string     `json:"state" doc:"running, waiting, finished, given_up or set_aside"`
	Undoing    bool       `json:"undoing,omitempty" doc:"it is given up: its steps are undone, or were if it has ended"`
	GivenUpFor string     `json:"given_up_for,omitempty"`
	Cause      string     `json:"cause,omitempty" doc:"why it waits or is set aside"`
	WaitsFor   string     `json:"waits_for,omitempty" doc:"the operation without an outcome that it waits for"`
	Failures   int        `json:"failures,omitempty" doc:"in a row"`
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	DueAt      *time.Time `json:"due_at,omitempty"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Tombstone  bool       `json:"tombstone,omitempty"`
	SealedBy   string     `json:"sealed_by,omitempty" doc:"the key that --keys lacks: what it seals is left out"`

	NeedsAttention string  `json:"needs_attention,omitempty" doc:"why it needs attention; left out if it does not"`
	Advice         *advice `json:"advice,omitempty" doc:"what to tell an operator of that"`
}

// flowDetail is a flow with its steps.
type flowDetail struct {
	flow
	History  []failure `json:"history,omitempty" doc:"its latest failures, oldest first"`
	Steps    []step    `json:"steps,omitempty"`
	cause    string    // unless it is the latest failure
	failures []shown.Failure

	Input *string `json:"input,omitempty" doc:"with --reveal: what it was begun with, secrets masked"`
}

type failure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

type step struct {
	Seq    int       `json:"seq"`
	Kind   string    `json:"kind"`
	Name   string    `json:"name,omitempty"`
	At     time.Time `json:"at"`
	Size   int       `json:"size" doc:"of what it returned, in bytes; 0 if sealed"`
	Result *string   `json:"result,omitempty" doc:"with --reveal: what it returned, secrets masked"`
}

func (c *command) flowOf(f *journal.Flow) flow {
	return flow{
		Handle: handleOf(f.Handle), Scope: f.Scope, Parent: f.Parent, ID: f.ID, Function: f.Function.Name, Version: f.Function.Version,
		State: f.State.String(), Undoing: f.Undoing, GivenUpFor: f.GivenUpFor, Cause: f.Cause, WaitsFor: f.WaitsFor.ID, Failures: f.Failures,
		CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt, DueAt: moment(f.DueAt), EndedAt: moment(f.EndedAt), Tombstone: f.Tombstone, SealedBy: f.SealedBy,
		NeedsAttention: f.NeedsAttention(c.now()), Advice: adviceOf(shown.AttentionOfFlow(f, c.now())), InboundKey: shown.InboundKey(f.Parent, c.fullKeys),
	}
}

func (c *command) flowDetailOf(f *journal.Flow, reveal bool) *flowDetail {
	d := &flowDetail{flow: c.flowOf(f), cause: shown.FlowCause(f), failures: shown.Failures(f)}
	for _, h := range f.History {
		d.History = append(d.History, failure{h.At, secret.Text(h.Error)})
	}
	for _, s := range f.Steps {
		one := step{Seq: s.Seq, Kind: s.Kind.String(), Name: s.Name, At: s.At, Size: len(s.Result)}
		if reveal {
			text := shown.Masked("", s.Result)
			one.Result = &text
		}
		d.Steps = append(d.Steps, one)
	}
	if reveal {
		text := shown.Masked("", f.Input)
		d.Input = &text
	}
	return d
}

func (d *flowDetail) table(t *table) {
	t.fact("flow", shown.Text(d.ID)+"  "+d.Handle)
	t.fact("scope", shown.Text(d.Scope))
	t.fact("parent", shown.Text(d.Parent))
	t.fact("inbound key", d.InboundKey)
	t.fact("function", fmt.Sprintf("%s, version %d", shown.Text(d.Function), d.Version))
	t.fact("state", d.State)
	t.fact("undoing", yes(d.Undoing && d.EndedAt == nil))
	t.fact("given up for", shown.Text(d.GivenUpFor))
	t.fact("why", shown.Text(d.cause))
	t.needsAttention(d.Advice, d.NeedsAttention)
	t.fact("waits for", shown.Text(d.WaitsFor))
	t.fact("created", t.time(d.CreatedAt))
	t.fact("due", t.moment(d.DueAt))
	t.fact("ended", t.moment(d.EndedAt))
	t.sealed(d.SealedBy)
	if d.Input != nil {
		t.fact("input", shown.Text(*d.Input))
	}
	for _, h := range d.failures {
		t.fact("failed", strings.TrimSpace(t.time(h.Last)+" "+h.Count())+": "+shown.Text(h.Error))
	}
	if len(d.Steps) > 0 {
		t.flush()
		t.row("STEP", "KIND", "NAME", "AT", "BYTES")
	}
	for _, s := range d.Steps {
		size := text(s.Size)
		if s.Size == 0 && d.SealedBy != "" {
			size = sealedBy(d.SealedBy)
		}
		t.row(text(s.Seq), s.Kind, shown.Short(s.Name, 60), t.time(s.At), size)
		if s.Result != nil {
			t.row("", "", shown.Text(*s.Result))
		}
	}
}

// flows is a list.
type flows struct {
	Flows []flow `json:"flows"`
	More  bool   `json:"more" doc:"there are more than are listed"`
}

func (l *flows) lines() []any { return lines(l.Flows) }

func (l *flows) table(t *table) {
	if len(l.Flows) == 0 {
		t.line("no flows")
		return
	}
	t.row("HANDLE", "STATE", "FLOW", "SCOPE", "FUNCTION", "CREATED", "DUE", "WHY")
	for i := range l.Flows {
		f := &l.Flows[i]
		t.row(f.Handle, f.State, shown.Short(f.ID, 40), shown.Short(f.Scope, 20), shown.Text(f.Function), t.time(f.CreatedAt), t.moment(f.DueAt), shown.Short(cmp.Or(f.Cause, sealedBy(f.SealedBy)), 60))
	}
	if l.More {
		t.line("and more: --limit")
	}
}

func (c *command) flowsCommand() *cobra.Command {
	var states []string
	var scope, inboundKey string
	var limit int
	filter := journal.FlowFilter{Newest: true}
	cmd := &cobra.Command{
		Use: "flows", Short: "List flows, newest first", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > 10000 {
				return usage("--limit %d: a list has 1 to 10000", limit)
			}
			var err error
			if filter.States, err = named(journal.FlowStates, states); err != nil {
				return err
			}
			if cmd.Flags().Changed("scope") {
				filter.Scope = &scope
			}
			return c.using(cmd.Context(), access{}, func(s store) error {
				said := &flows{}
				said.Flows, said.More, err = shown.Page(s.ListFlows(cmd.Context(), filter), limit, func(f *journal.Flow) bool {
					return inboundKey == "" || shown.InboundKey(f.Parent, true) == shown.Text(inboundKey)
				}, c.flowOf)
				if err != nil {
					return err
				}
				return c.say(said)
			})
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, listed(journal.FlowStates, "or")+"; several by commas")
	cmd.Flags().StringVar(&scope, "scope", "", "of this scope alone; --scope= for those without one")
	cmd.Flags().StringVar(&filter.ID, "name", "", "of this name alone, below any parent")
	cmd.Flags().StringVar(&inboundKey, "inbound-key", "", "begun by the inbound request with this key alone")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many at most")
	return cmd
}

func (c *command) flowCommand() *cobra.Command {
	var r reference
	reveal := false
	show := &cobra.Command{
		Use: "flow REF", Short: "Show a flow and its steps, have it tried again, or give it up",
		Args: exactly(1, "the name of a flow, or its handle"),
		RunE: c.reads(func(ctx context.Context, s store, args []string) error {
			f, err := r.anyFlow(ctx, s, args[0])
			if !reveal {
				err = unlessSealed(err)
			}
			if err != nil {
				return err
			}
			return c.say(c.flowDetailOf(&f, reveal))
		}),
	}
	r.flags(show)
	show.Flags().BoolVar(&reveal, "reveal", false, "show the input and the results too; credentials and cards are masked all the same")
	show.AddCommand(c.flowRetryCommand(), c.flowGiveUpCommand())
	return show
}

func (c *command) flowRetryCommand() *cobra.Command {
	var r reference
	cmd := &cobra.Command{
		Use: "retry REF", Short: "Let a flow that is set aside or waits go on at once, its failures forgiven", Args: exactly(1, "the name of a flow, or its handle"),
		RunE: c.runs(access{write: true}, func(ctx context.Context, s store, args []string) error {
			return c.sayOfFlow(ctx, s, &r, args[0], func(journal.Flow) (machine.FlowEvent, error) {
				return machine.FlowEvent{Kind: machine.FlowEventRetry}, nil
			})
		}),
	}
	r.flags(cmd)
	return cmd
}

func (c *command) flowGiveUpCommand() *cobra.Command {
	var r reference
	because, sure := "", false
	cmd := &cobra.Command{
		Use: "give-up REF --because WHY", Short: "Have a flow given up: the application undoes its steps, latest first",
		Args: exactly(1, "the name of a flow, or its handle"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if because == "" {
				return usage("give-up needs --because: why it is given up, which is recorded")
			}
			return c.using(cmd.Context(), access{write: true}, func(s store) error {
				return c.sayOfFlow(cmd.Context(), s, &r, args[0], func(f journal.Flow) (machine.FlowEvent, error) {
					err := c.confirm(sure, fmt.Sprintf("Flow %s, %s, is given up, and what its steps made is undone", shown.Text(f.ID), f.State), f.ID)
					return machine.FlowEvent{Kind: machine.FlowEventGiveUp, Cause: secret.Recorded(because)}, err
				})
			})
		},
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&because, "because", "", "why, which is recorded")
	cmd.Flags().BoolVar(&sure, "yes", false, "don't ask")
	return cmd
}

// sayOfFlow applies an operator's decision about a flow.
func (c *command) sayOfFlow(ctx context.Context, s store, r *reference, arg string, says func(journal.Flow) (machine.FlowEvent, error)) error {
	f, err := r.anyFlow(ctx, s, arg)
	if err != nil {
		return err
	}
	ev, err := says(f)
	if err != nil {
		return err
	}
	now, err := s.GetFlow(ctx, f.Ref) // the operator may have taken long to answer
	if err != nil {
		return err
	}
	if now.Handle != f.Handle || now.Claim != f.Claim || now.State != f.State {
		return refused("flow %s was run meanwhile, and is %s now: look again", shown.Text(f.ID), now.State)
	}
	ev.Ref, ev.Handle, ev.At = f.Ref, f.Handle, c.at(s)
	res, err := s.ApplyFlow(ctx, ev)
	switch {
	case err != nil:
		return err
	case res.Decision == machine.Wait:
		return refused("flow %s is being run just now: try again", shown.Text(f.ID))
	case res.Decision != machine.Recorded:
		return refused("flow %s is %s, and this changes nothing", shown.Text(f.ID), f.State)
	}
	if f, err = s.GetFlow(ctx, f.Ref); err != nil {
		return err
	}
	c.tell("recorded; the application goes on with it within seconds, if it knows function %s", shown.Text(f.Function.Name))
	return c.say(c.flowDetailOf(&f, false))
}
