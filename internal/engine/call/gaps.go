package call

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// gaps are the protections that the configuration leaves out. Each host's or endpoint's first gap is logged.
type gaps struct {
	mu     sync.Mutex
	warned map[string]bool
}

// maxWarned limits how many hosts and endpoints gaps remembers, since a caller may send to any host. Beyond it gaps
// logs no warnings.
const maxWarned = 1024

// isFirst reports whether a gap has to be logged, since it was not logged before.
func (g *gaps) isFirst(gap string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.warned[gap] || len(g.warned) >= maxWarned {
		return false
	}
	if g.warned == nil {
		g.warned = map[string]bool{}
	}
	g.warned[gap] = true
	return true
}

// gap checks whether a request that may have an effect lacks protection. If so, it returns an error with
// Config.Strict, and otherwise logs one line for each host.
func (k *Call) gap() error {
	why := k.misses()
	if why == "" {
		return nil
	}
	if k.client.Strict {
		return k.Fail(fault.ErrUnprotected, errors.New(why))
	}
	host := k.req.URL.Host
	if !k.factory.gaps.isFirst(host) {
		return nil
	}
	k.client.Say(k.ctx, slog.LevelWarn, core.LogUnprotected, "a request may take effect more than once: name it, or list its endpoint in a table. Config.Strict rejects such requests; this host is not logged again",
		"host", host, "request", core.Target(k.req.Method, k.req.URL), "reason", why)
	return nil
}

// misses returns a text about the missing protection and the remedy, or "" if none is missing.
func (k *Call) misses() string {
	route, u, named := k.route, k.req.URL, k.name.IsNamed()
	if route.Listed {
		if !named && Streams(k.req) {
			return "it is sent in chunks, with a trailer or for an Upgrade, and passes through: give it a body of a known length"
		}
		return k.wrongKeyHeader()
	}
	if route.Provider == nil {
		if host := k.otherPort(u); host != "" {
			return fmt.Sprintf("Config.Providers has the host %q, and the request goes to %q, another port: a host in a table has the port of its URLs, unless that is the scheme's own", host, u.Host)
		}
		if named {
			return ""
		}
		return "no provider of Config.Providers serves its host, and it has no name: " +
			"add a table for the host, such as providers.Raw(24*time.Hour, host), or name the request by WithOperation; send what needs no protection by a client of its own"
	}
	if tidy := cleaned(u); tidy != nil && k.client.Router.Route(k.req.Method, tidy).Listed {
		return fmt.Sprintf("a server may read its path as another one, so no endpoint of %s matches it: write it as %s", route.Provider.Name, secret.URL(tidy))
	}
	if named {
		return ""
	}
	return fmt.Sprintf("no endpoint of %s matches it, and it has no name: add one to the table (with NoEffect, if it has none), or name the request by WithOperation", route.Provider.Name)
}

// otherPort finds a host in the tables that is u's but for the port.
func (k *Call) otherPort(u *url.URL) string {
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	for i := range k.client.Providers {
		for _, host := range k.client.Providers[i].Hosts {
			listed := (&url.URL{Host: strings.ToLower(host)}).Hostname()
			if parent, below := strings.CutPrefix(listed, "*."); listed == name || below && strings.HasSuffix(name, "."+parent) {
				return host
			}
		}
	}
	return ""
}

// cleaned returns u with the path that a server may read instead of u's own, or nil if there is none.
func cleaned(u *url.URL) *url.URL {
	if u.Opaque != "" {
		return nil
	}
	tidy := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path.Clean("/" + strings.ReplaceAll(u.Path, `\`, "/"))}
	if strings.HasSuffix(u.Path, "/") && tidy.Path != "/" {
		tidy.Path += "/"
	}
	if tidy.EscapedPath() == u.EscapedPath() {
		return nil
	}
	return tidy
}

// keyHeaders are the headers that hold idempotency keys without saying
// so in their names (developer.paypal.com/api/rest/requests, OASIS Repeatable
// Requests 1.0).
var keyHeaders = []string{"paypal-request-id", "repeatability-request-id"}

// wrongKeyHeader returns a text about a header that resembles a key header, if the table's key has another place and
// is missing there. Otherwise it returns "".
func (k *Call) wrongKeyHeader() string {
	key := k.route.Endpoint.Key
	if key.Place == providers.KeyNone {
		return "" // the table says that no key is taken, and the request is sent once
	}
	for name, values := range k.req.Header {
		if len(values) == 0 || values[0] == "" || tables.Key(key).InHeader(name) || !resemblesKey(name) {
			continue
		}
		if _, isCarried, err := tables.Key(key).Carried(k.message()); err != nil || isCarried {
			return ""
		}
		return fmt.Sprintf("it has a key in the header %s, and the table of %s takes keys in the %s: one of them is mistaken, and a server that ignores the other would execute every repetition",
			http.CanonicalHeaderKey(name), k.route.Provider.Name, tables.Key(key).Form())
	}
	return ""
}

func resemblesKey(header string) bool {
	return secret.ContainsFold(header, "idempoten") ||
		slices.ContainsFunc(keyHeaders, func(name string) bool { return strings.EqualFold(header, name) })
}

var errSecretInQuery = errors.New("the URL's query holds a secret, such as a card's number: give it in the body")

// withholdBody keeps a secret body (a card's number) out of the journal. Only a caller with the body can have the
// operation sent. If no table marks the body as a secret, the first one for an endpoint is logged.
func (k *Call) withholdBody() {
	k.intent.BodyWithheld, k.intent.Request.Body = true, nil
	field, host := k.secrets.Field, k.req.URL.Host
	if k.secrets.Unread {
		field = "*"
	}
	if field == "" || !k.factory.gaps.isFirst("body of "+host+" "+k.intent.Endpoint) {
		return
	}
	k.client.Say(k.ctx, slog.LevelWarn, core.LogWithheld, "a body is not kept, since it can't be read or a field has a credential's name, so only its caller can repeat the operation. "+
		"List the field in Endpoint.OpenRequest if it is no secret; this endpoint is not logged again", "host", host, "endpoint", k.intent.Endpoint, "field", field)
}
