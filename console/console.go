package console

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// Action is something that somebody does on the console.
type Action uint8

const (
	Look      Action = iota // see operations and flows, without their bodies; always on
	Reveal                  // see an operation's bodies, with what is secret masked; for a reason, which is logged
	Resolve                 // say what became of an operation
	Cancel                  // cancel an operation of which nothing was ever sent
	RetryFlow               // let a flow that is set aside or waits go on
	GiveUp                  // have a flow given up
)

var actionNames = [...]string{"look", "reveal", "resolve", "cancel", "retry", "give up"}

func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return fmt.Sprintf("Action(%d)", a)
}

// Options are what a console is made of. Journal and Authorize are required.
type Options struct {
	// Journal is what is shown: a client's own, or one that was opened to be read alone. It has to be
	// a journal.StatsReader, as this module's are, and may be a journal.Flows.
	Journal journal.Journal

	// Authorize says who makes a request, and whether they may do that: it is asked about every
	// request, before anything else is. An error refuses it (403), and is logged and not shown. It is
	// called concurrently.
	Authorize func(*http.Request, Action) (actor string, err error)

	// Actions are what is switched on beside Look. None by default.
	Actions []Action

	// Client is what Resolve and Cancel are done by: it makes the keys of further generations. They
	// can't be switched on without it.
	Client *onceward.Client

	// Hour is what the page shows of the last hour. nil: one of the console's own, which has what was read
	// while somebody looked, and no commits.
	Hour *Hour

	// Hosts are the names that requests may be for, without a port: others are refused, as by a page
	// that has its own name resolve to this machine. nil: any, for what stands behind a proxy.
	Hosts []string

	// Title is what the page is called; "": Onceward.
	Title string

	// Logger is told who revealed and did what, and of failures. nil: slog.Default().
	Logger *slog.Logger
}

//go:embed assets
var assets embed.FS

// console is the handler. It is safe for concurrent use.
type console struct {
	Options
	stats journal.StatsReader
	flows journal.Flows // nil: the journal keeps none
	pages *template.Template
	live  live
	now   func() time.Time
}

// New makes the page. It reads nothing and starts nothing; there is nothing to be closed. The error says
// what is wrong with the options.
func New(o Options) (http.Handler, error) {
	stats, counts := o.Journal.(journal.StatsReader)
	switch {
	case o.Journal == nil:
		return nil, errors.New("console: Options.Journal is missing")
	case !counts:
		return nil, errors.New("console: Options.Journal counts nothing: it has to be a journal.StatsReader, as this module's are")
	case o.Authorize == nil:
		return nil, errors.New("console: Options.Authorize is missing: say who may look, or nobody can")
	case o.Client == nil && (slices.Contains(o.Actions, Resolve) || slices.Contains(o.Actions, Cancel)):
		return nil, errors.New("console: Options.Client is missing: resolve and cancel are done by it")
	}
	if o.Title == "" {
		o.Title = "Onceward"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Hour == nil {
		o.Hour = new(Hour)
	}
	c := &console{Options: o, stats: stats, now: time.Now}
	c.flows, _ = o.Journal.(journal.Flows)
	var err error
	if c.pages, err = template.New("").Funcs(c.functions()).ParseFS(assets, "assets/*.html"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.live.console = c
	return c.guarded(c.routes()), nil
}

// route is a handler that knows by whom it is asked.
type route func(w http.ResponseWriter, r *http.Request, actor string) error

func (c *console) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, to := range map[string]struct {
		action Action
		route  route
	}{
		"GET /{$}":         {Look, c.overview},
		"GET /operations":  {Look, c.operations},
		"GET /operation":   {Look, c.operation},
		"GET /find":        {Look, c.find},
		"GET /attention":   {Look, c.attention},
		"GET /flows":       {Look, c.flowList},
		"GET /flow":        {Look, c.flow},
		"GET /events":      {Look, c.live.serve},
		"GET /console.css": {Look, asset("console.css", "text/css; charset=utf-8")},
		"GET /console.js":  {Look, asset("console.js", "text/javascript; charset=utf-8")},
		"POST /reveal":     {Reveal, c.reveal},
		"POST /resolve":    {Resolve, c.resolve},
		"POST /cancel":     {Cancel, c.cancel},
		"POST /retry":      {RetryFlow, c.retry},
		"POST /giveup":     {GiveUp, c.giveUp},
		"/":                {Look, c.nothing}, // who may not look learns nothing of what there is
	} {
		mux.Handle(pattern, c.allowed(to.action, to.route))
		if path, posted := strings.CutPrefix(pattern, "POST "); posted {
			mux.Handle(path, c.allowed(Look, c.onlyPosted))
		}
	}
	return mux
}

// policy is what a browser may do with the page: load what is ours, and nothing else.
const policy = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'"

// guarded sets the headers of every answer, and refuses names that are not ours.
func (c *console) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if len(c.Hosts) > 0 && !slices.Contains(c.Hosts, hostname(r.Host)) {
			http.Error(w, "this name is not served here", http.StatusMisdirectedRequest)
			return
		}
		if r.URL.Path == "" { // a prefix without its slash: relative links would lead beside it
			asked, _, _ := strings.Cut(r.RequestURI, "?")
			h.Set("Location", path.Base(asked)+"/")
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// maxForm is how much of a form is read.
const maxForm = 64 << 10

// allowed asks whether somebody may do that, then whether it is switched on, and then, of what
// changes or reveals something, whether the request comes from this page.
func (c *console) allowed(action Action, next route) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor, err := c.Authorize(r, action)
		switch {
		case err != nil:
			c.Logger.WarnContext(r.Context(), "onceward console: refused", "action", action.String(), "error", secret.Text(err.Error()))
			c.fail(w, r, &failure{status: http.StatusForbidden, says: "You may not " + action.String() + " here."})
			return
		case action != Look && !c.on(action):
			c.fail(w, r, &failure{status: http.StatusForbidden, says: "This console does not " + action.String() + ": that is switched off."})
			return
		}
		if err := origin.Check(r); err != nil {
			c.fail(w, r, &failure{status: http.StatusForbidden, says: "The request comes from another page."})
			return
		}
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			if err := r.ParseForm(); err != nil {
				c.fail(w, r, &failure{status: http.StatusBadRequest, says: "The form can't be read."})
				return
			}
		}
		if err := next(w, r, actor); err != nil {
			c.fail(w, r, err)
		}
	})
}

// on tells whether an action is switched on.
func (c *console) on(action Action) bool { return action == Look || slices.Contains(c.Actions, action) }

// failure is what a page says instead.
type failure struct {
	status int
	says   string
	link   string // where to go on
}

func (f *failure) Error() string { return f.says }

func (c *console) fail(w http.ResponseWriter, r *http.Request, err error) {
	var f *failure
	switch {
	case errors.As(err, &f):
	case errors.Is(err, journal.ErrNotFound):
		f = &failure{status: http.StatusNotFound, says: "There is no such operation or flow in this journal."}
	case r.Context().Err() != nil:
		return // nobody is there any more
	default:
		c.Logger.ErrorContext(r.Context(), "onceward console: failed", "path", r.URL.Path, "error", err)
		f = &failure{status: http.StatusInternalServerError, says: "The journal could not be read or written. The log says why."}
	}
	c.render(w, r, f.status, "failure", &page{Heading: http.StatusText(f.status), Failure: f.says, Link: f.link})
}

func (c *console) nothing(http.ResponseWriter, *http.Request, string) error {
	return &failure{status: http.StatusNotFound, says: "There is no such page."}
}

func (c *console) onlyPosted(w http.ResponseWriter, _ *http.Request, _ string) error {
	w.Header().Set("Allow", http.MethodPost)
	return &failure{status: http.StatusMethodNotAllowed, says: "That is done by a form of an operation's or a flow's page.", link: "operations"}
}

func asset(name, contentType string) route {
	return func(w http.ResponseWriter, _ *http.Request, _ string) error {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", contentType)
		_, err = w.Write(text)
		return err
	}
}
