package console

import (
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/words"
	"github.com/onceward/onceward/journal"
)

// Action is an operator's action on the console.
type Action uint8

const (
	Look           Action = iota // see operations, flows and receipts, without their bodies; always enabled
	Reveal                       // see an operation's or a receipt's bodies, with secrets masked; needs a reason, which is logged
	Resolve                      // record what became of an operation
	Cancel                       // cancel an operation of which nothing was ever sent
	RetryFlow                    // run a flow again that is set aside or waits
	GiveUp                       // give a flow up
	ResolveReceipt               // record what became of a request or a message whose outcome is unknown
)

var actionNames = [...]string{"look", "reveal", "resolve", "cancel", "retry", "give up", "resolve a receipt"}

func (a Action) String() string { return words.Of("Action", actionNames[:], a) }

// Options configures a console. Journal and Authorize are required.
type Options struct {
	// Journal is the journal to show: a client's own, or one opened read-only. It must be a journal.StatsReader, as
	// this module's are. The console shows flows and receipts if the journal keeps them.
	Journal journal.Journal

	// Authorize returns the operator who makes a request, or an error if the operator may not do the action. It is
	// called first, for every request, concurrently. An error is answered by 403, and is logged but not shown.
	Authorize func(*http.Request, Action) (actor string, err error)

	// Actions enables actions beside Look. Default: none.
	Actions []Action

	// Client executes Resolve and Cancel, which require it: it makes further generations' keys.
	Client *onceward.Client

	// Hour has the last hour that the page shows. Nil means one of the console's own, with the counts read while an
	// operator looked, and no commits.
	Hour *Hour

	// Hosts has the names that requests may be for, without a port. Others are rejected, against a page elsewhere
	// whose own name resolves to this machine. Nil accepts any name, for a console behind a proxy.
	Hosts []string

	// Title is the page's title. Default: Onceward.
	Title string

	// Logger receives each reveal and action with its operator, and failures. Default: slog.Default().
	Logger *slog.Logger
}

// console is the handler. It is safe for concurrent use.
type console struct {
	Options
	stats journal.StatsReader
	flows machine.Flows // nil if the journal keeps none

	receipts      receiptStore // likewise
	receiptCounts receiptCounts

	pages *template.Template
	live  live
	now   func() time.Time
}

// receiptStore is a journal that keeps and counts receipts.
type receiptStore interface {
	machine.Receipts
	journal.ReceiptCounter
}

// on reports whether an action is enabled.
func (c *console) on(action Action) bool { return action == Look || slices.Contains(c.Actions, action) }

// failure is an error page's content.
type failure struct {
	status int
	says   string
	link   string // where to go on
}

func (f *failure) Error() string { return f.says }
