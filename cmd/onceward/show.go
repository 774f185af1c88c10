package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

func text(v any) string { return fmt.Sprint(v) }

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

func (d *detail) table(t *table) {
	t.fact("operation", shown.Text(d.ID)+"  "+d.Handle)
	t.fact("scope", shown.Text(d.Scope))
	t.fact("parent", shown.Text(d.Parent))
	t.fact("flow", d.Flow)
	t.fact("inbound key", shown.Text(d.InboundKey))
	t.fact("state", d.State)
	t.fact("effect", d.Effect)
	t.fact("why", shown.Text(d.Cause))
	t.needsAttention(d.Advice, d.NeedsAttention)
	t.fact("seen", fmt.Sprintf("%d.%d  (generation and claim, for resolve --seen)", d.Generation, d.Claim))
	t.fact("naming", d.Naming)
	t.fact("provider", strings.TrimSpace(shown.Text(d.Provider)+"  "+shown.Text(d.Endpoint)))
	t.fact("key", shown.Text(d.Key))
	t.fact("trace", shown.Text(d.Trace))
	t.fact("attempts", text(d.Attempts))
	t.fact("may have run", yes(d.MayHaveRun))
	t.fact("created", t.time(d.CreatedAt))
	for _, at := range []struct {
		name string
		at   *time.Time
	}{{"first sent", d.FirstSentAt}, {"due", d.DueAt}, {"settled", d.SettledAt}, {"next look-up", d.LookAt}} {
		t.fact(at.name, t.moment(at.at))
	}
	if d.SafeUntil != nil {
		t.fact("safe until", fmt.Sprintf("%s, %.0f %% of the window left", t.moment(d.SafeUntil), 100**d.WindowLeft))
	}
	t.fact("provider remembers", d.Terms.text())
	t.fact("delivered", yes(d.Delivered))
	t.fact("reaped", yes(d.Tombstone))
	if d.SecondEffects > 0 {
		t.fact("SECOND EFFECTS", text(d.SecondEffects))
	}
	t.fact("object", shown.Text(d.Object))
	t.said("resolved", d.Resolved)
	t.said("withdrawn", d.Withdrawn)
	t.sealed(d.SealedBy)
	t.message("request", d.Request)
	t.message("answer", d.Answer)
	t.message("last answer", d.LastAnswer)
	for _, e := range d.Evidence {
		t.fact("evidence", fmt.Sprintf("%s, generation %d: %s", t.time(e.At), e.Generation, e.says))
	}
	for _, r := range d.Rounds {
		t.fact("earlier", shown.Text(strings.TrimSpace(fmt.Sprintf("generation %d %s %s", r.Generation, r.Key, r.Reference))))
	}
}

func (s terms) text() string {
	out := s.Remembers
	if s.RetentionSeconds > 0 {
		out += " for " + shown.Duration(time.Duration(s.RetentionSeconds*float64(time.Second)))
	}
	switch {
	case s.Guard:
		out += ", guards what is in flight"
	case s.HandlingSeconds > 0:
		out += ", works on a request for at most " + shown.Duration(time.Duration(s.HandlingSeconds*float64(time.Second)))
	}
	return out
}

func (t *table) said(name string, w *word) {
	if w != nil {
		t.fact(name, strings.TrimSuffix(fmt.Sprintf("%s by %s, %s: %s", w.Resolution, shown.Text(w.By), t.time(w.At), shown.Text(w.Why)), ": "))
	}
}

func (t *table) message(name string, m *message) {
	if m == nil {
		return
	}
	marks := ""
	for _, mark := range []struct {
		is   bool
		word string
	}{{m.Omitted, "body not kept"}, {m.Cut, "cut off"}, {m.Refused, "nothing took effect"}, {m.ByHand, "by hand"}, {m.Found, "found"}} {
		if mark.is {
			marks += ", " + mark.word
		}
	}
	head := shown.Text(strings.TrimSpace(m.Method + " " + m.URL))
	if m.Status != 0 {
		head = text(m.Status)
	}
	size := fmt.Sprintf("%d bytes", m.Size)
	if m.SealedBy != "" {
		size = sealedBy(m.SealedBy)
	}
	t.fact(name, strings.TrimPrefix(head+", "+size+marks, ", "))
	t.fact("  resource", shown.Text(m.Pointer))
	t.fact("  withheld", shown.Text(strings.Join(m.Withheld, ", ")))
	t.fact("  headers", shown.Short(strings.Join(m.Headers, ", "), 120))
	if m.Body == nil {
		for _, line := range m.Shape {
			t.row("", line)
		}
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(*m.Body, "\n"), "\n") {
		t.row("", shown.Text(line))
	}
}

// looksAt returns the function of a verb that reads one operation. Payloads may be missing, unless the verb reveals them.
func (c *command) looksAt(r *reference, reveal *bool, do func(ctx context.Context, s store, op *journal.Operation) error) runner {
	return c.reads(func(ctx context.Context, s store, args []string) error {
		op, err := r.operation(ctx, s, args[0])
		if !*reveal {
			err = unlessSealed(err)
		}
		if err != nil {
			return err
		}
		return do(ctx, s, &op)
	})
}

func (c *command) showCommand() *cobra.Command {
	var r reference
	reveal := false
	cmd := &cobra.Command{
		Use: "show REF", Short: "Show all that is known of an operation", Args: exactly(1, "the name of an operation, or its handle"),
		RunE: c.looksAt(&r, &reveal, func(_ context.Context, _ store, op *journal.Operation) error {
			d := c.detailOf(op, reveal)
			return c.say(&d)
		}),
	}
	r.operationFlags(cmd)
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the bodies too; credentials and cards are masked all the same")
	return cmd
}

// reasons says why an operation is sent or not.
type reasons struct {
	Handle    string     `json:"handle"`
	ID        string     `json:"id"`
	State     string     `json:"state"`
	Answer    string     `json:"answer" doc:"will it be sent: now, not before or never"`
	At        *time.Time `json:"at,omitempty" doc:"of not before"`
	Because   string     `json:"because"`
	Rule      string     `json:"rule" doc:"what the resend rule says of sending it with its own key, whatever the state: now, not before or never"`
	RuleSays  string     `json:"rule_because,omitempty" doc:"why not now"`
	Advice    string     `json:"advice,omitempty" doc:"what there is to do"`
	SafeUntil *time.Time `json:"safe_until,omitempty"`
	Forgotten *time.Time `json:"forgotten_from,omitempty" doc:"when the provider may have forgotten the key"`
}

func (r *reasons) table(t *table) {
	t.fact("operation", shown.Text(r.ID)+"  "+r.Handle+"  "+r.State)
	t.fact("will be sent", strings.TrimSpace(r.Answer+" "+t.moment(r.At)))
	t.fact("because", r.Because)
	t.fact("rule, of its own key", strings.TrimSuffix(r.Rule+": "+r.RuleSays, ": "))
	if r.SafeUntil != nil {
		t.fact("safe until", t.moment(r.SafeUntil)+"; the provider may have forgotten it "+t.moment(r.Forgotten))
	}
	t.fact("to do", r.Advice)
}

func (c *command) whyCommand() *cobra.Command {
	var r reference
	cmd := &cobra.Command{
		Use: "why REF", Short: "Say whether an operation will be sent, and why", Args: exactly(1, "the name of an operation, or its handle"),
		RunE: c.looksAt(&r, new(bool), func(ctx context.Context, s store, op *journal.Operation) error {
			now := c.at(s)
			last, unconfirmed, err := s.clock(ctx, now)
			if err != nil {
				return err
			}
			how, err := s.ReadStats(ctx)
			if err != nil {
				return err
			}
			w := shown.WhyOf(op, now, last, unconfirmed)
			if how.Restored != "" {
				w = w.Restored()
			}
			return c.say(c.reasonsOf(op, now, w))
		}),
	}
	r.operationFlags(cmd)
	return cmd
}

func (c *command) reasonsOf(op *journal.Operation, now time.Time, w shown.Why) *reasons {
	out := &reasons{
		Handle: handleOf(op.Handle), ID: c.operationOf(op).ID, State: op.State.String(),
		Answer: w.Answer, At: moment(w.At), Because: w.Because, Rule: w.Rule.Answer.String(), RuleSays: w.Rule.Reason, Advice: w.Advice,
	}
	if window, has := shown.WindowOf(op, now); has && !op.State.Settled() {
		out.SafeUntil, out.Forgotten = moment(window.Safe), moment(window.Forget)
	}
	return out
}
