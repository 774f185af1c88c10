package console

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// operation is an operation, prepared for its page.
type operation struct {
	journal.Operation
	ParentKind, ParentName string
	Path                   string // of the request, without its query
	Why                    shown.Why
	Window                 shown.Window
	HasWindow              bool
	Bar                    template.HTML
	Requested, Answered    *body
	LastAnswered           *body // of an operation that it left pending or unknown
	History                []moment
	MayCancel, MayResolve  bool
	MaySendAgain           bool
}

// body is a body's shape.
type body struct {
	Size     int
	Fields   []shown.Field
	Whole    bool
	SealedBy string // a key that this process lacks
}

func bodyOf(contentType string, text []byte) *body {
	fields, whole := shown.Shape(contentType, text)
	return &body{Size: len(text), Fields: fields, Whole: whole}
}

// answerOf returns an answer's body. sealedBy is the record's.
func answerOf(a *journal.Answer, sealedBy string) *body {
	if sealedBy != "" && a.Header == nil && a.Body == nil {
		return &body{SealedBy: sealedBy}
	}
	return bodyOf(a.Header.Get("Content-Type"), a.Body)
}

// moment is a line in an operation's history.
type moment struct {
	At   time.Time
	Says string
}

// byHandle returns a request's whole operation. If a key is missing, byHandle returns the other fields with ErrSealed.
func (c *console) byHandle(r *http.Request) (journal.Operation, error) {
	n, err := strconv.ParseInt(r.FormValue("h"), 10, 64)
	if err != nil || n < 1 {
		return journal.Operation{}, bad("operations", "The request names no operation.")
	}
	for op, err := range c.Journal.List(r.Context(), journal.Filter{After: n - 1, Before: n + 1, Limit: 1}) {
		if err != nil {
			return op, err
		}
		return c.Journal.Get(r.Context(), op.Ref)
	}
	return journal.Operation{}, journal.ErrNotFound
}

func (c *console) operation(w http.ResponseWriter, r *http.Request, _ string) error {
	op, err := c.byHandle(r)
	if unlessSealed(err) != nil {
		return err
	}
	return c.showOperation(w, r, http.StatusOK, &op, &page{Notice: notices[r.URL.Query().Get("done")]})
}

var notices = map[string]string{
	"resolved": "Your decision is recorded.", "cancelled": "It is cancelled.", "retried": "The application continues it with its next pass.",
	"freed": "Its key is free.", "given-up": "It is given up: the application undoes its steps.",
}

func (c *console) showOperation(w http.ResponseWriter, r *http.Request, status int, op *journal.Operation, p *page) error {
	shows, err := c.operationOf(r.Context(), op)
	if err != nil {
		return err
	}
	p.Heading, p.Operation = shown.Clip(shown.ID(op), 80), shows
	c.render(w, r, status, "operation", p)
	return nil
}

func (c *console) operationOf(ctx context.Context, op *journal.Operation) (*operation, error) {
	now := c.now()
	told, err := c.live.now(ctx)
	if err != nil {
		return nil, err
	}
	o := &operation{Operation: *op, Why: shown.WhyOf(op, now, told.Last, unconfirmed(told.Last, now))}
	if told.Restored != "" {
		o.Why = o.Why.Restored()
	}
	o.ParentKind, o.ParentName = shown.Parent(op)
	o.Path, _, _ = strings.Cut(op.Request.URL, "?")
	if o.Window, o.HasWindow = shown.WindowOf(op, now); o.HasWindow && op.State != journal.StateUnknown { // an unknown one is never resent
		o.Bar = windowPicture(o.Window, now)
	}
	switch {
	case op.Request.Method != "":
		o.Requested = bodyOf(op.Request.Header.Get("Content-Type"), op.Request.Body)
	case op.SealedBy != "":
		o.Requested = &body{SealedBy: op.SealedBy}
	}
	if a := op.Answer; a != nil {
		o.Answered = answerOf(a, op.SealedBy)
	}
	if a := op.LastAnswer; a != nil {
		o.LastAnswered = answerOf(a, op.SealedBy)
	}
	o.History = historyOf(op)
	open := op.State == journal.StateUnknown || op.State == journal.StatePending
	o.MayResolve = open
	o.MayCancel = op.State == journal.StatePending && !op.MayHaveRun
	o.MaySendAgain = open && (op.State == journal.StateUnknown || o.Why.Answer == machine.Never.String())
	return o, nil
}

// unlessSealed returns nil for an error about a missing key. The other fields of the record were read.
func unlessSealed(err error) error {
	if errors.Is(err, journal.ErrSealed) {
		return nil
	}
	return err
}

// historyOf returns an operation's recorded times, in order.
func historyOf(op *journal.Operation) (all []moment) {
	add := func(at time.Time, says string) {
		if !at.IsZero() {
			all = append(all, moment{at, says})
		}
	}
	add(op.CreatedAt, "recorded, before anything was sent")
	add(op.FirstSentAt, "first sent, in generation "+strconv.Itoa(op.Generation))
	add(op.LastEndedAt, "the last attempt ended, or was taken over")
	for _, e := range op.Evidence {
		add(e.At, shown.Evidence(&e))
	}
	if s := op.Resolved; s != nil {
		add(s.At, strings.ReplaceAll(s.Resolution.String(), "_", " ")+", says "+shown.Text(s.By)+": "+shown.Text(s.Why))
	}
	if s := op.Withdrawn; s != nil {
		add(s.At, "withdrawn by "+shown.Text(s.By)+": "+shown.Text(s.Why))
	}
	add(op.SettledAt, stateWord(op.State))
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}
