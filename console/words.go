package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

func operationLink(handle int64) string { return "operation?h=" + strconv.FormatInt(handle, 10) }

func receiptLink(handle int64) string { return "receipt?h=" + strconv.FormatInt(handle, 10) }

// stateWord returns a state in docs/design.md's words.
func stateWord(s journal.State) string {
	return [...]string{"absent", "pending", "in flight", "completed", "unknown", "cancelled"}[s]
}

// flowWord returns a flow's state in words.
func flowWord(s journal.FlowState) string {
	return [...]string{"absent", "running", "waiting", "finished", "given up", "set aside"}[s]
}

// stateShape returns a sign that shows a state without its color.
func stateShape(s journal.State) string { return [...]string{"·", "◔", "➤", "✔", "?", "✕"}[s] }

// grouped returns a number with its thousands separated.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// flowOfStep returns an operation's flow, and its handle, or "".
func flowOfStep(op *journal.Operation) string {
	if kind, name := shown.Parent(op); kind == "flow" {
		return name
	}
	return ""
}

// flowLink returns the link to a flow, by its whole name.
func flowLink(f *journal.Flow) string {
	return "flow?" + url.Values{"scope": {f.Scope}, "parent": {f.Parent}, "name": {f.ID}}.Encode()
}

// seeOther redirects by a link relative to the page. http.Redirect would make it absolute from a path without its
// prefix.
func seeOther(w http.ResponseWriter, link string) {
	w.Header().Set("Location", link)
	w.WriteHeader(http.StatusSeeOther)
}
