package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/machine"
	keys "github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// receipt is a receipt, prepared for a page.
type receipt struct {
	journal.Receipt
	Name keys.Name

	Answered   *body
	MayResolve bool
}

func receiptOf(r *journal.Receipt) receipt {
	return receipt{Receipt: *r, Name: keys.NameOf(r.ReceiptKey)}
}

// Of says whose receipt it is.
func (r *receipt) Of() string {
	if r.Name.Consumer != "" {
		return shown.Short(strings.TrimSpace(r.Name.Consumer+" "+r.Name.Source), 32)
	}
	return shown.Short(r.Name.Tenant, 32)
}

// Endpoint is the endpoint that received a request.
func (r *receipt) Endpoint() string {
	if r.Name.Consumer != "" {
		return ""
	}
	return r.Place
}

// Shown is a request's key, shortened, or a message's ID.
func (r *receipt) Shown() string {
	if r.Name.Consumer != "" {
		return shown.Short(r.Name.Key, 32)
	}
	return shown.Key(r.Name.Key)
}

// Why says why it needs attention, or who resolved it.
func (r *receipt) Why() string {
	if why := r.NeedsAttention(); why != "" {
		return why
	}
	return r.Cause
}

// receiptList is a page of receipts, and its selection.
type receiptList struct {
	Rows                                     []receipt
	Counts                                   *journal.ReceiptCounts // nil: there are no receipts
	State, Tenant, Consumer, Endpoint, Older string
	Oldest                                   bool
	Next                                     string
	Cut                                      bool
}

// receiptPage lists receipts, newest first. It scans for a bounded time, and offers to continue.
func (c *console) receiptPage(w http.ResponseWriter, r *http.Request, _ string) error {
	if c.receipts == nil {
		return &failure{status: http.StatusNotFound, says: "This journal keeps no receipts."}
	}
	q := r.URL.Query()
	done := q.Get("done")
	q.Del("done")
	l := &receiptList{
		State: q.Get("state"), Tenant: q.Get("tenant"), Consumer: q.Get("consumer"), Endpoint: q.Get("endpoint"), Older: q.Get("older"), Oldest: q.Get("order") == "oldest",
	}
	filter := journal.ReceiptFilter{Place: l.Endpoint, Newest: !l.Oldest}
	if l.Tenant != "" || l.Consumer != "" {
		filter.Scope = keys.Scope(l.Tenant, l.Consumer)
	}
	var err error
	if filter.States, err = stateOf("receipts", []journal.ReceiptState{journal.ReceiptCompleted, journal.ReceiptReserved}, l.State); err != nil {
		return err
	}
	var older time.Time
	if older, filter.After, filter.Before, err = c.place("receipts", q); err != nil {
		return err
	}
	if l.Counts, err = c.counted(r.Context()); err != nil {
		return err
	}
	if l.Counts != nil {
		if err := l.read(r.Context(), c.receipts, filter, older, q); err != nil {
			return err
		}
	}
	c.render(w, r, http.StatusOK, "receipts", &page{Heading: "Receipts", Receipts: l, Notice: notices[done]})
	return nil
}

// read fills the page.
func (l *receiptList) read(ctx context.Context, j machine.Receipts, filter journal.ReceiptFilter, older time.Time, q url.Values) error {
	began, passed := time.Now(), int64(0)
	next := func() string {
		q.Set("at", strconv.FormatInt(passed, 10))
		return "receipts?" + q.Encode()
	}
	chosen := filter // the store tells no progress about receipts that its filter passes over
	filter.Scope, filter.Place = "", ""
	if len(filter.States) == 1 && filter.States[0] == journal.ReceiptCompleted {
		filter.States = nil
	}
	for r, err := range j.ListReceipts(ctx, filter) {
		switch {
		case err != nil:
			return err
		case len(l.Rows) == perPage:
			l.Next = next()
			return nil
		}
		passed = r.Handle
		if (chosen.Scope == "" || chosen.Scope == r.Scope) && (chosen.Place == "" || chosen.Place == r.Place) &&
			(l.State == "" || l.State == r.State.String()) && (older.IsZero() || r.CreatedAt.Before(older)) {
			l.Rows = append(l.Rows, receiptOf(&r))
		} else if time.Since(began) > lookFor {
			l.Next, l.Cut = next(), true
			return nil
		}
	}
	return nil
}

// reserved adds the receipts that need attention, oldest first.
func (c *console) reserved(ctx context.Context, p *page) error {
	n, err := c.counted(ctx)
	if err != nil || n == nil || n.Reserved == 0 {
		return err
	}
	reserved := journal.ReceiptFilter{States: []journal.ReceiptState{journal.ReceiptReserved}, Limit: perPage*4 + 1}
	rows, more, err := shown.Page(c.receipts.ListReceipts(ctx, reserved), perPage*4, nil, receiptOf)
	if err != nil || len(rows) == 0 {
		return err
	}
	if p.Receipts = (&receiptList{Rows: rows}); more {
		p.Receipts.Next = "receipts?state=reserved&order=oldest"
	}
	return nil
}

// receiptByHandle returns a request's whole receipt. If a key is missing, receiptByHandle returns the other fields
// with ErrSealed.
func (c *console) receiptByHandle(r *http.Request) (journal.Receipt, error) {
	n, err := strconv.ParseInt(r.FormValue("h"), 10, 64)
	if err != nil || n < 1 {
		return journal.Receipt{}, bad("receipts", "The request names no receipt.")
	}
	missing := &failure{status: http.StatusNotFound, says: "There is no such receipt in this journal.", link: "receipts"}
	if counts, err := c.counted(r.Context()); err != nil {
		return journal.Receipt{}, err
	} else if counts == nil {
		return journal.Receipt{}, missing
	}
	for listed, err := range c.receipts.ListReceipts(r.Context(), journal.ReceiptFilter{After: n - 1, Before: n + 1, Limit: 1}) {
		if err != nil {
			return listed, err
		}
		whole, err := c.receipts.GetReceipt(r.Context(), listed.ReceiptKey)
		if !errors.Is(err, journal.ErrNotFound) && (unlessSealed(err) != nil || whole.Handle == n) { // else the key was freed since, and is reserved anew
			return whole, err
		}
	}
	return journal.Receipt{}, missing
}

func (c *console) receipt(w http.ResponseWriter, r *http.Request, _ string) error {
	found, err := c.receiptByHandle(r)
	if unlessSealed(err) != nil {
		return err
	}
	c.showReceipt(w, r, &found, &page{Notice: notices[r.URL.Query().Get("done")]})
	return nil
}

func (c *console) showReceipt(w http.ResponseWriter, r *http.Request, found *journal.Receipt, p *page) {
	shows := receiptOf(found)
	shows.MayResolve = found.State == journal.ReceiptReserved
	if a := found.Answer; a != nil && shows.Name.Consumer == "" {
		shows.Answered = answerOf(a, found.SealedBy)
	}
	p.Heading, p.Receipt = "Receipt #"+strconv.FormatInt(found.Handle, 10), &shows
	c.render(w, r, http.StatusOK, "receipt", p)
}

func (c *console) revealReceipt(w http.ResponseWriter, r *http.Request, actor string) error {
	why, err := because(r)
	if err != nil {
		return err
	}
	found, err := c.receiptByHandle(r)
	if err != nil {
		return err
	}
	c.Logger.InfoContext(r.Context(), "onceward console: an answer revealed", "actor", actor, "because", secret.Recorded(why), "receipt", found.Handle)
	bodies := &revealed{}
	if a := found.Answer; a != nil {
		bodies.Answer = shown.Masked(a.Header.Get("Content-Type"), a.Body)
	}
	c.showReceipt(w, r, &found, &page{Revealed: bodies})
	return nil
}

// resolveReceipt records an operator's decision about a receipt.
func (c *console) resolveReceipt(w http.ResponseWriter, r *http.Request, actor string) error {
	why, err := because(r)
	if err != nil {
		return err
	}
	found, err := c.receiptByHandle(r)
	if unlessSealed(err) != nil {
		return err
	}
	link := receiptLink(found.Handle)
	refused := func(status int, says string) error {
		return &failure{status: status, says: says + " Nothing was done.", link: link}
	}
	ev := machine.ReceiptEvent{
		Kind: machine.ReceiptResolve, ReceiptKey: found.ReceiptKey, Handle: found.Handle, At: c.now(), Resolution: resolutions[r.PostFormValue("as")], By: actor, Why: secret.Recorded(why),
	}
	if ev.Claim, err = strconv.ParseInt(r.PostFormValue("claim"), 10, 64); err != nil || ev.Claim < 1 {
		return refused(http.StatusBadRequest, "The form does not name the version that you read.")
	}
	switch ev.Resolution {
	case journal.Executed:
		ev.Answer = &journal.Answer{}
		if keys.NameOf(found.ReceiptKey).Consumer != "" {
			break // a message has no answer
		}
		status, err := strconv.Atoi(r.PostFormValue("status"))
		if err != nil || status < 200 || status > 599 {
			return refused(http.StatusBadRequest, "The answer needs a status from 200 to 599.")
		}
		ev.Answer.Status = status
		if text := r.PostFormValue("body"); text != "" {
			ev.Answer.Body = []byte(text)
			ev.Answer.Header = http.Header{"Content-Type": {r.PostFormValue("type")}}
		}
	case journal.NotExecuted:
	default:
		return refused(http.StatusBadRequest, "Say what became of it.")
	}
	switch err := keys.Resolve(r.Context(), c.receipts, c.receipts.BeginTx, ev); {
	case errors.Is(err, keys.ErrMoved):
		return refused(http.StatusConflict, "Its key has been used again since you read it. Read it again.")
	case errors.Is(err, keys.ErrBusy):
		return refused(http.StatusConflict, "Another transaction works on it just now.")
	case errors.Is(err, journal.ErrInvalidEvent):
		return refused(http.StatusConflict, "Its outcome is known.")
	case errors.Is(err, journal.ErrRestored):
		return refused(http.StatusConflict, "The journal was restored or copied, and decides nothing until it is adopted.")
	case err != nil:
		return err
	}
	c.receiptCounts.changed()
	c.Logger.InfoContext(r.Context(), "onceward console: receipt resolved", "actor", actor, "resolution", ev.Resolution.String(), "because", ev.Why, "receipt", found.Handle)
	if ev.Resolution == journal.NotExecuted {
		link = "receipts?done=freed"
	} else {
		link += "&done=resolved"
	}
	seeOther(w, link)
	return nil
}
