package console

import (
	"bytes"
	"html/template"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// page is a template's data.
type page struct {
	Title, Heading string
	Now            time.Time
	Notice         string // what was done just now
	Failure, Link  string

	Findings []finding
	Stats    *journal.Stats
	Picture  template.HTML
	Charts   []chart // of the last hour

	List      *list
	Operation *operation
	Flows     []journal.Flow
	More      bool
	Flow      *journal.Flow
	Receipts  *receiptList
	Missed    []shown.Missed
	Receipt   *receipt
	Received  *journal.ReceiptCounts // for the overview; nil: there are no receipts
	Revealed  *revealed
	On        map[string]bool // actions, by name
	Keeps     bool            // the journal may have receipts
}

func (c *console) render(w http.ResponseWriter, r *http.Request, status int, name string, p *page) {
	p.Title, p.Now, p.On = c.Title, c.now(), map[string]bool{}
	p.Keeps = c.receipts != nil
	for _, a := range c.Actions {
		p.On[a.String()] = true
	}
	var out bytes.Buffer
	if err := c.pages.ExecuteTemplate(&out, name, p); err != nil {
		c.Logger.ErrorContext(r.Context(), "onceward console: failed", "page", name, "error", err)
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}

// orNone is nil, which a template passes over, if nothing needs attention.
func orNone(a shown.Attention) *shown.Attention {
	if a == (shown.Attention{}) {
		return nil
	}
	return &a
}

// functions returns the templates' functions.
func (c *console) functions() template.FuncMap {
	return template.FuncMap{
		"text":          shown.Text,
		"key":           shown.Key,
		"attention":     func(op *journal.Operation) *shown.Attention { return orNone(shown.AttentionOf(op, c.now())) },
		"failures":      func(f journal.Flow) []shown.Failure { return shown.Failures(&f) },
		"inboundkey":    func(parent string) string { return shown.InboundKey(parent, false) },
		"flowof":        flowOfStep,
		"inboundof":     func(op *journal.Operation) string { return shown.Key(seam.InboundKeyOf(op)) },
		"flowcause":     func(f journal.Flow) string { return shown.FlowCause(&f) },
		"flowattention": func(f journal.Flow) *shown.Attention { return orNone(shown.AttentionOfFlow(&f, c.now())) },
		"undone":        func(f journal.Flow) bool { return f.Undoing && !f.State.Ended() },
		"id":            func(op *journal.Operation) string { return shown.ID(op) },
		"short":         func(s string) string { return shown.Short(s, 64) },
		"clip":          func(s string) string { return shown.Clip(s, 64) },
		"bytes":         shown.Bytes,
		"ago": func(at, now time.Time) string {
			if at.After(now) {
				return "in " + shown.Duration(at.Sub(now))
			}
			return shown.Duration(now.Sub(at)) + " ago"
		},
		"rfc3339":       func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"state":         stateWord,
		"shape":         stateShape,
		"flowstate":     flowWord,
		"duration":      shown.Duration,
		"flowlink":      func(f journal.Flow) string { return flowLink(&f) },
		"operationlink": operationLink,
		"receiptlink":   receiptLink,
		"rowof":         func(r receipt) *receipt { return &r },
		"permission":    func(a machine.PermissionAnswer) string { return a.String() },
		"completed":     func(s *journal.Stats) int64 { return completed(s) },
		"number":        grouped,
		"ref":           func(op journal.Operation) *journal.Operation { return &op },
		"pair":          func(now, at time.Time) map[string]time.Time { return map[string]time.Time{"Now": now, "At": at} },
		"sized":         func(b *body) map[string]any { return map[string]any{"Body": b, "N": int64(b.Size)} },
		"states":        func() []journal.State { return journal.States },
		"flowstates":    func() []journal.FlowState { return journal.FlowStates },
	}
}
