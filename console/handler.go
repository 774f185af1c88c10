package console

import (
	"cmp"
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

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

//go:embed assets
var assets embed.FS

// New makes the page. It reads nothing and starts nothing, and needs no close. The error names the faulty option.
func New(o Options) (http.Handler, error) {
	stats, counts := o.Journal.(journal.StatsReader)
	switch {
	case o.Journal == nil:
		return nil, errors.New("console: Options.Journal is missing")
	case !counts:
		return nil, errors.New("console: Options.Journal counts nothing: it has to be a journal.StatsReader, as this module's are")
	case o.Authorize == nil:
		return nil, errors.New("console: Options.Authorize is missing: give a function that decides who may read")
	case o.Client == nil && (slices.Contains(o.Actions, Resolve) || slices.Contains(o.Actions, Cancel)):
		return nil, errors.New("console: Options.Client is missing: resolve and cancel are done by it")
	}
	o.Title = cmp.Or(o.Title, "Onceward")
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Hour = cmp.Or(o.Hour, new(Hour))
	c := &console{Options: o, stats: stats, now: time.Now}
	c.flows, _ = o.Journal.(machine.Flows)
	c.receipts, _ = o.Journal.(receiptStore)
	var err error
	if c.pages, err = template.New("").Funcs(c.functions()).ParseFS(assets, "assets/*.html"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.live.console = c
	return c.guarded(c.routes()), nil
}

// route is a handler that receives the operator.
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
		"GET /receipts":    {Look, c.receiptPage},
		"GET /receipt":     {Look, c.receipt},
		"GET /events":      {Look, c.live.serve},
		"GET /console.css": {Look, asset("console.css", "text/css; charset=utf-8")},
		"GET /console.js":  {Look, asset("console.js", "text/javascript; charset=utf-8")},
		"POST /reveal":     {Reveal, c.reveal},
		"POST /resolve":    {Resolve, c.resolve},
		"POST /cancel":     {Cancel, c.cancel},
		"POST /retry":      {RetryFlow, c.retry},
		"POST /giveup":     {GiveUp, c.giveUp},

		"POST /revealreceipt":  {Reveal, c.revealReceipt},
		"POST /resolvereceipt": {ResolveReceipt, c.resolveReceipt},

		"/": {Look, c.nothing}, // who may not look learns nothing of what there is
	} {
		mux.Handle(pattern, c.allowed(to.action, to.route))
		if path, posted := strings.CutPrefix(pattern, "POST "); posted {
			mux.Handle(path, c.allowed(Look, c.onlyPosted))
		}
	}
	return mux
}

// policy restricts the browser to the page's own files.
const policy = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'"

// guarded sets every answer's headers, and rejects foreign host names.
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

// maxForm limits how much is read from a form.
const maxForm = 64 << 10

// allowed checks that the operator may do the action, then that it is enabled, and then, for actions that change or
// reveal something, that the request comes from this page.
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

func (c *console) fail(w http.ResponseWriter, r *http.Request, err error) {
	var f *failure
	switch {
	case errors.As(err, &f):
	case errors.Is(err, journal.ErrNotFound):
		f = &failure{status: http.StatusNotFound, says: "There is no such operation or flow in this journal."}
	case errors.Is(err, journal.ErrSealed):
		f = &failure{status: http.StatusConflict, says: "This needs what is sealed, and the console's process lacks the key (Options.Seal of its journal). Nothing was done."}
	case r.Context().Err() != nil:
		return // the browser has gone
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
	return &failure{status: http.StatusMethodNotAllowed, says: "That is done by a form of an operation's, a flow's or a receipt's page.", link: "operations"}
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
