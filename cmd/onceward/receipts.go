package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/machine"
	keys "github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// receipt is one receipt.
type receipt struct {
	Handle   string `json:"handle" doc:"its number in this journal, such as #12; never used again"`
	Tenant   string `json:"tenant,omitempty" doc:"of a request"`
	Consumer string `json:"consumer,omitempty" doc:"of a message"`
	Source   string `json:"source,omitempty" doc:"of a message"`
	Replay   string `json:"replay,omitempty" doc:"of a message"`
	Endpoint string `json:"endpoint,omitempty" doc:"the name of the endpoint that received the request"`
	Key      string `json:"key" doc:"of the request, shortened unless --full-keys; or the ID of the message"`
	State    string `json:"state" doc:"completed, or reserved: its handler committed without an answer, and its outcome is unknown; absent: its key was freed just now"`
	Seen     string `json:"seen" doc:"the handle and how often the key was reserved; what receipt resolve takes as --seen"`
	Status   int    `json:"status,omitempty" doc:"of the recorded answer to a request"`

	NeedsAttention string `json:"needs_attention,omitempty" doc:"why it needs attention; left out if it does not"`

	CreatedAt    time.Time  `json:"created_at"`
	SettledAt    *time.Time `json:"settled_at,omitempty" doc:"when the answer was recorded"`
	ExpiresAt    time.Time  `json:"expires_at" doc:"the answer is given until then"`
	RefusedUntil time.Time  `json:"refused_until" doc:"the key is refused from expires_at until then, and is new afterwards"`
	Cause        string     `json:"cause,omitempty" doc:"who resolved it, and why"`
	SealedBy     string     `json:"sealed_by,omitempty" doc:"the key that --keys lacks: what it seals is left out"`
}

func (c *command) receiptOf(r *journal.Receipt) receipt {
	name := keys.NameOf(r.ReceiptKey)
	out := receipt{
		Handle: handleOf(r.Handle), Tenant: name.Tenant, Consumer: name.Consumer, Source: name.Source, Replay: name.Replay,
		Key: name.Key, State: r.State.String(), Seen: fmt.Sprintf("%d.%d", r.Handle, r.Claim), NeedsAttention: r.NeedsAttention(),
		CreatedAt: r.CreatedAt, SettledAt: moment(r.SettledAt), ExpiresAt: r.ExpiresAt, RefusedUntil: r.RefusedUntil, Cause: r.Cause,
		SealedBy: r.SealedBy,
	}
	if name.Consumer == "" {
		out.Endpoint, out.Key = r.Place, c.key(name.Key)
	}
	if r.Answer != nil {
		out.Status = r.Answer.Status
	}
	return out
}

// of says whose receipt it is.
func (r *receipt) of() string {
	if r.Consumer != "" {
		return shown.Short(strings.TrimSpace(r.Consumer+" "+r.Source), 40)
	}
	return shown.Short(r.Tenant, 40)
}

// receiptCounts are the counts for a journal with receipts.
type receiptCounts struct {
	Completed      int64      `json:"completed"`
	Reserved       int64      `json:"reserved" doc:"their outcome is unknown"`
	OldestReserved *time.Time `json:"oldest_reserved,omitempty" doc:"when the first of the reserved receipts was created"`
	NextEnd        *time.Time `json:"next_end,omitempty" doc:"when the first of the completed receipts, or its answer, is to be removed"`
}

// all returns 0 for a journal without receipts.
func (n *receiptCounts) all() int64 {
	if n == nil {
		return 0
	}
	return n.Completed + n.Reserved
}

// countReceipts returns nil for a journal without receipts.
func countReceipts(ctx context.Context, s store) (*receiptCounts, error) {
	n, err := s.CountReceipts(ctx)
	if err != nil || n.Completed+n.Reserved == 0 {
		return nil, err
	}
	return &receiptCounts{n.Completed, n.Reserved, moment(n.OldestReserved), moment(n.NextEnd)}, nil
}

// receipts is one page.
type receipts struct {
	Counts   *receiptCounts `json:"counts,omitempty" doc:"of all receipts of the journal, whatever was selected; left out: there are none"`
	Receipts []receipt      `json:"receipts"`
	Next     string         `json:"next,omitempty" doc:"what --after takes for the next page; left out: there is none"`
}

func (l *receipts) lines() []any { return lines(l.Receipts) }

func (l *receipts) table(t *table) {
	if l.Counts == nil {
		t.line("no receipts")
		return
	}
	t.line(fmt.Sprintf("%d completed, %d reserved", l.Counts.Completed, l.Counts.Reserved))
	if len(l.Receipts) == 0 {
		t.line("none of them is selected")
		return
	}
	t.receipts(l.Receipts)
	if l.Next != "" {
		t.line("more: --after '" + l.Next + "'")
	}
}

func (t *table) receipts(list []receipt) {
	t.row("RECEIPT", "STATE", "OF", "ENDPOINT", "KEY", "STATUS", "CREATED", "EXPIRES", "WHY")
	for i := range list {
		r := &list[i]
		status := ""
		if r.Status != 0 {
			status = text(r.Status)
		}
		t.row(r.Handle, r.State, r.of(), shown.Text(r.Endpoint), shown.Short(r.Key, 40), status, t.time(r.CreatedAt), t.time(r.ExpiresAt),
			shown.Short(cmp.Or(r.NeedsAttention, r.Cause), 80))
	}
}

// chosenReceipts has the flags that select receipts.
type chosenReceipts struct {
	tenant, consumer, endpoint string
	states                     []string
	paging
}

func (c *command) receiptsCommand() *cobra.Command {
	var of chosenReceipts
	cmd := &cobra.Command{
		Use: "receipts", Short: "List receipts of requests and messages, newest first", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := of.filter()
			if err != nil {
				return err
			}
			return c.using(cmd.Context(), access{}, func(s store) error {
				page, err := c.receiptPage(cmd.Context(), s, filter, &of)
				if err != nil {
					return err
				}
				return c.say(page)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&of.tenant, "tenant", "", "of this tenant alone")
	flags.StringVar(&of.consumer, "consumer", "", "of this consumer's messages alone")
	flags.StringVar(&of.endpoint, "endpoint", "", "received by the endpoint of this name alone; a renamed one keeps its first name")
	flags.StringSliceVar(&of.states, "state", nil, "completed, or reserved: of unknown outcome")
	of.paging.flags(cmd)
	return cmd
}

func (of *chosenReceipts) filter() (f journal.ReceiptFilter, err error) {
	f = journal.ReceiptFilter{Place: of.endpoint, Newest: !of.oldest}
	if f.After, f.Before, err = of.bounds(); err != nil {
		return f, err
	}
	switch {
	case of.tenant != "" && of.consumer != "":
		return f, usage("--tenant is of requests, and --consumer of messages: give one of the two")
	case of.tenant != "" || of.consumer != "":
		f.Scope = keys.Scope(of.tenant, of.consumer)
	}
	f.States, err = named([]journal.ReceiptState{journal.ReceiptCompleted, journal.ReceiptReserved}, of.states)
	return f, err
}

func (c *command) receiptPage(ctx context.Context, s store, filter journal.ReceiptFilter, of *chosenReceipts) (*receipts, error) {
	said := &receipts{Receipts: []receipt{}}
	var err error
	if said.Counts, err = countReceipts(ctx, s); err != nil || said.Counts == nil {
		return said, err
	}
	before, more := c.at(s).Add(-of.older), false
	said.Receipts, more, err = shown.Page(s.ListReceipts(ctx, filter), of.limit, func(r *journal.Receipt) bool { return of.older <= 0 || r.CreatedAt.Before(before) }, c.receiptOf)
	if more {
		said.Next = said.Receipts[of.limit-1].Handle
	}
	return said, err
}

// receiptDetail is a receipt with all its facts.
type receiptDetail struct {
	receipt
	Answer *message `json:"answer,omitempty" doc:"left out: there is none, or it has expired and was removed"`
}

func (d *receiptDetail) table(t *table) {
	t.fact("receipt", d.Handle)
	t.fact("tenant", shown.Text(d.Tenant))
	t.fact("endpoint", shown.Text(d.Endpoint))
	t.fact("consumer", shown.Text(d.Consumer))
	t.fact("source", shown.Text(d.Source))
	t.fact("replay", shown.Text(d.Replay))
	t.fact("key", shown.Text(d.Key))
	t.fact("state", d.State)
	t.fact("seen", d.Seen)
	t.fact("needs attention", d.NeedsAttention)
	t.fact("cause", shown.Text(d.Cause))
	t.fact("created", t.time(d.CreatedAt))
	t.fact("answered", t.moment(d.SettledAt))
	t.fact("expires", t.time(d.ExpiresAt))
	t.fact("refused until", t.time(d.RefusedUntil))
	t.sealed(d.SealedBy)
	t.message("answer", d.Answer)
}

func (c *command) receiptDetailOf(r *journal.Receipt, reveal bool) *receiptDetail {
	d := &receiptDetail{receipt: c.receiptOf(r)}
	if a := r.Answer; a != nil && d.Consumer == "" {
		d.Answer = messageOf(a, r.SealedBy, reveal)
	}
	return d
}

// receiptRef is a receipt's name on the command line.
type receiptRef struct {
	keys.Name
	literal bool
}

func (r *receiptRef) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.Tenant, "tenant", "", "whose key it is")
	flags.StringVar(&r.Endpoint, "endpoint", "", "if keys are counted for each endpoint: the first name that the endpoint had")
	flags.StringVar(&r.Consumer, "consumer", "", "of a message: the name of its consumer")
	flags.StringVar(&r.Source, "source", "", "of a message: its source")
	flags.StringVar(&r.Replay, "replay", "", "of a message: its replay, if it has one")
	flags.BoolVar(&r.literal, "literal", false, "the argument is a key, though it looks like a handle (#12)")
}

// receipt returns the whole receipt.
func (r *receiptRef) receipt(ctx context.Context, s store, arg string) (journal.Receipt, error) {
	missing := notFound("there is no receipt %s in this journal; receipts shows them, and a key needs its --tenant, or its --consumer and --source", shown.Text(arg))
	if n, err := countReceipts(ctx, s); err != nil {
		return journal.Receipt{}, err
	} else if n == nil {
		return journal.Receipt{}, missing
	}
	r.Key = arg
	key := r.Receipt()
	if n, is := (&reference{literal: r.literal}).handle(arg); is {
		found := false
		for listed, err := range s.ListReceipts(ctx, journal.ReceiptFilter{After: n - 1, Before: n + 1, Limit: 1}) {
			if err != nil {
				return listed, err
			}
			key, found = listed.ReceiptKey, true
		}
		if !found {
			return journal.Receipt{}, missing
		}
	}
	whole, err := s.GetReceipt(ctx, key)
	if errors.Is(err, journal.ErrNotFound) {
		err = missing
	}
	return whole, err
}

func (c *command) receiptCommand() *cobra.Command {
	var r receiptRef
	reveal := false
	cmd := &cobra.Command{
		Use: "receipt KEY", Short: "Show a receipt, by its key and tenant, or resolve it",
		Args: exactly(1, "the key of a request, the ID of a message, or a handle"),
		RunE: c.reads(func(ctx context.Context, s store, args []string) error {
			found, err := r.receipt(ctx, s, args[0])
			if !reveal {
				err = unlessSealed(err)
			}
			if err != nil {
				return err
			}
			return c.say(c.receiptDetailOf(&found, reveal))
		}),
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the answer's body too; credentials and cards are masked all the same")
	cmd.AddCommand(c.receiptResolveCommand())
	return cmd
}

func (c *command) receiptResolveCommand() *cobra.Command {
	var r receiptRef
	var how resolution
	cmd := &cobra.Command{
		Use:   "resolve KEY --executed|--not-executed --because WHY",
		Short: "Say what became of a request or a message whose outcome is unknown",
		Long: "resolve settles a reserved receipt: its handler committed the transaction by itself, and no answer was recorded. With --executed the key is\n" +
			"answered by --answer from then on. --not-executed frees the key: if the request did take effect, the next one takes effect a second time.",
		Args: exactly(1, "the key of a request, the ID of a message, or a handle"),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := how.answer != "" || cmd.Flags().Changed("answer-status")
			return c.using(cmd.Context(), access{write: true}, func(s store) error { return c.resolveReceipt(cmd.Context(), s, &r, args[0], how, given) })
		},
	}
	r.flags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&how.executed, "executed", false, "it took effect")
	flags.BoolVar(&how.notExecuted, "not-executed", false, "it had no effect: the key is free")
	flags.StringVar(&how.because, "because", "", "how that is known, which is recorded with an answer")
	flags.StringVar(&how.seen, "seen", "", "the life and claim that you read, as receipt prints them (3.1); needed with --yes")
	flags.StringVar(&how.by, "by", "", "who says so; else the user of the system")
	flags.BoolVar(&how.sure, "yes", false, "don't ask")
	flags.StringVar(&how.answer, "answer", "", "with --executed: a file with the body that callers get; - for standard input")
	flags.IntVar(&how.status, "answer-status", http.StatusOK, "with --executed: the status that callers get; without --answer there is no body")
	flags.StringVar(&how.contentType, "answer-type", "application/json", "with --answer: its Content-Type")
	return cmd
}

// resolveReceipt records an operator's decision about a receipt. given reports whether the flags have an answer.
func (c *command) resolveReceipt(ctx context.Context, s store, r *receiptRef, arg string, how resolution, given bool) error {
	ev := machine.ReceiptEvent{Kind: machine.ReceiptResolve, Resolution: journal.Executed, By: how.by, Why: secret.Recorded(how.because)}
	switch {
	case how.executed == how.notExecuted:
		return usage("receipt resolve needs one of --executed and --not-executed")
	case strings.TrimSpace(how.because) == "":
		return usage("receipt resolve needs --because: how that is known")
	case how.sure && how.seen == "":
		return usage("receipt resolve --yes needs --seen: the life and claim that you read, as receipt prints them")
	case how.notExecuted && given:
		return usage("--answer and --answer-status go with --executed")
	case how.status < 200 || how.status > 599:
		return usage("--answer-status %d: it is from 200 to 599", how.status)
	}
	found, err := r.receipt(ctx, s, arg)
	if unlessSealed(err) != nil {
		return err
	}
	ofMessage := keys.NameOf(found.ReceiptKey).Consumer != ""
	switch {
	case ofMessage && given:
		return usage("a message has no answer: leave --answer and --answer-status out")
	case how.executed && !ofMessage && !given:
		return usage("receipt resolve --executed needs --answer or --answer-status: what callers with the key get")
	case found.State != journal.ReceiptReserved:
		return refused("receipt %s is %s: only a reserved one can be resolved", handleOf(found.Handle), found.State)
	}
	if ev.Handle, ev.Claim = found.Handle, found.Claim; how.seen != "" {
		if ev.Handle, ev.Claim, err = pair(how.seen); err != nil || ev.Claim < 1 {
			return usage("--seen %s: it takes what receipt prints as seen, such as 3.1", shown.Text(how.seen))
		}
	}
	if how.executed {
		ev.Answer = &journal.Answer{}
		if given {
			ev.Answer.Status = how.status
		}
		if how.answer != "" {
			if ev.Answer.Body, err = c.read(how.answer); err != nil {
				return err
			}
			ev.Answer.Header = http.Header{"Content-Type": {how.contentType}}
		}
	} else {
		ev.Resolution = journal.NotExecuted
	}
	as := strings.ReplaceAll(ev.Resolution.String(), "_", " ")
	if err := c.confirm(how.sure, fmt.Sprintf("Receipt %s is recorded as %s, and that can't be taken back", handleOf(found.Handle), as), handleOf(found.Handle)); err != nil {
		return err
	}
	ev.By = cmp.Or(ev.By, whoever())
	ev.ReceiptKey, ev.At = found.ReceiptKey, c.at(s)
	switch err := keys.Resolve(ctx, s, s.BeginTx, ev); {
	case errors.Is(err, keys.ErrBusy), errors.Is(err, keys.ErrMoved), errors.Is(err, journal.ErrInvalidEvent):
		return refused("receipt %s: %v", handleOf(found.Handle), err)
	case err != nil:
		return err
	}
	if !how.executed {
		c.tell("the key of receipt %s is free", handleOf(found.Handle))
		found.State = journal.ReceiptAbsent
		return c.say(c.receiptDetailOf(&found, false))
	}
	now, err := s.GetReceipt(ctx, found.ReceiptKey)
	if err != nil {
		return err
	}
	return c.say(c.receiptDetailOf(&now, false))
}
