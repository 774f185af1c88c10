package server

import (
	"cmp"
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
)

// Endpoint holds the settings of one endpoint. The zero value is the default.
type Endpoint struct {
	// Optional serves a POST or PATCH without a key too, as any handler: nothing of it is recorded. Without Optional it is
	// answered by 400.
	Optional bool

	// Formerly are the names that the endpoint had in earlier deploys of the program, the latest first. The first name of
	// all stays the recorded one, so that a process of an earlier deploy finds the receipts too. Outcomes, logs and lists
	// of receipts have that name as well. Keep the names here.
	Formerly []string

	// Retain is the time in which the recorded answer is given again, from the first request. Default: 7 days. It is
	// at least 24 hours.
	Retain time.Duration

	// RefuseFor is how long after that the key is refused, and not taken for a new one. Negative: not at all. If the
	// handler makes calls through Options.Client, a key that was used before is refused after that time too: its calls
	// are not made again. Default: Config.Keep, and 23 days if that is less or there is no client.
	RefuseFor time.Duration

	// Limit is the longest time that one run of the handler may take, after any wait for the key. It also limits the wait
	// for a request's body if the HTTP server has no ReadTimeout. Default: 30 seconds. It is at most 10 minutes.
	Limit time.Duration

	// Held is the longest time that the request's transaction may be open. Then the handler's context ends, and nothing is
	// kept. Default: 5 seconds, or Limit if that is less. On SQLite the journal records nothing else meanwhile. On
	// PostgreSQL, a handler that ignores its context holds the transaction until it returns.
	Held time.Duration

	// Wait is the longest time that a request waits for one with the same key that this process is serving. Default:
	// 0, a 409 at once.
	Wait time.Duration

	// MaxRequest bounds the body of a request, and MaxAnswer that of an answer with the headers that are kept, in bytes.
	// A larger body of a request whose key has a receipt is compared with it. Default: 1 MiB each.
	MaxRequest, MaxAnswer int64

	// Omit names members of the body that a repeated request may have otherwise: paths with dots. A release that changes
	// Omit refuses the keys of earlier requests that have such a member.
	Omit []string

	// KeepHeaders are headers of the answer that are kept, besides the usual ones. A header that belongs to a single exchange is
	// refused: a cookie, a CORS or hop-by-hop header, or a mark of the server's own, such as Idempotent-Replayed.
	KeepHeaders []string

	// KeyBytes are the least and the most bytes of a key. A key with a receipt may have others. Default: 8 and 255.
	KeyBytes [2]int

	// MayReplay is asked before a recorded answer is given again, to a caller who may have lost the right to it. An error is
	// answered by 403. nil: every caller who is authenticated may have it.
	MayReplay func(*http.Request, journal.Receipt) error
}

var endpointName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// keptHeaders are the headers of an answer that are recorded. All others are of the first exchange alone.
var keptHeaders = []string{"Content-Type", "Content-Language", "Content-Disposition", "Content-Location", "Location", "Etag",
	"Last-Modified", "Link", "Preference-Applied", "Deprecation", "Sunset", "X-Content-Type-Options"}

// neverKept are headers that would harm a caller who got them again, or that the server sets anew.
var neverKept = regexp.MustCompile(`^(Idempotent-Replayed|Idempotency-.*|Set-Cookie|Www-Authenticate|Access-Control-.*|Date|Connection|Keep-Alive|Proxy-.*|Te|Trailer|Transfer-Encoding|Upgrade|Content-Encoding|Content-Length|Vary)$`)

const (
	minRetain = 24 * time.Hour   // the least Endpoint.Retain
	maxLimit  = 10 * time.Minute // the largest Endpoint.Limit
)

const (
	retain    = 7 * 24 * time.Hour  // Endpoint.Retain by default
	refuseFor = 23 * 24 * time.Hour // the least Endpoint.RefuseFor by default
)

// checked returns e with its defaults. It panics about a mistake of the program.
func (s *Server) checked(name string, e Endpoint) Endpoint {
	e.Retain = cmp.Or(e.Retain, retain)
	e.RefuseFor = max(0, cmp.Or(e.RefuseFor, s.refuseFor))
	e.Limit = cmp.Or(e.Limit, 30*time.Second)
	e.Held = cmp.Or(e.Held, min(e.Limit, 5*time.Second))
	e.MaxRequest, e.MaxAnswer = cmp.Or(e.MaxRequest, 1<<20), cmp.Or(e.MaxAnswer, 1<<20)
	if e.KeyBytes == [2]int{} {
		e.KeyBytes = [2]int{8, 255}
	}
	for _, former := range e.Formerly {
		if !endpointName.MatchString(former) {
			panic(fmt.Sprintf("server: endpoint %s: Endpoint.Formerly has %q, which no endpoint was ever named", name, former))
		}
	}
	for _, header := range e.KeepHeaders {
		if neverKept.MatchString(textproto.CanonicalMIMEHeaderKey(header)) {
			panic(fmt.Sprintf("server: endpoint %s: Endpoint.KeepHeaders has %s, which belongs to a single exchange: leave it out", name, header))
		}
	}
	switch {
	case !endpointName.MatchString(name):
		panic(fmt.Sprintf("server: the endpoint's name %q: give 1 to 64 of a-z, 0-9, '.', '_' and '-'", name))
	case e.Retain < minRetain:
		panic(fmt.Sprintf("server: endpoint %s: Endpoint.Retain is %v: give at least 24 hours", name, e.Retain))
	case e.Limit < 0 || e.Limit > maxLimit:
		panic(fmt.Sprintf("server: endpoint %s: Endpoint.Limit is %v: give at most 10 minutes", name, e.Limit))
	case e.Held < 0 || e.Wait < 0 || e.MaxRequest < 0 || e.MaxAnswer < 0:
		panic(fmt.Sprintf("server: endpoint %s: Held, Wait, MaxRequest and MaxAnswer can't be negative", name))
	case e.KeyBytes[0] < 1 || e.KeyBytes[1] > 255 || e.KeyBytes[0] > e.KeyBytes[1]:
		panic(fmt.Sprintf("server: endpoint %s: Endpoint.KeyBytes is %v: give the least and the most, from 1 to 255", name, e.KeyBytes))
	}
	return e
}

// kept returns the headers of an answer that are recorded.
func (e *Endpoint) kept(h http.Header) http.Header {
	kept := http.Header{}
	for _, name := range slices.Concat(keptHeaders, e.KeepHeaders) {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if values := h[name]; len(values) > 0 {
			kept[name] = slices.Clone(values)
		}
	}
	return kept
}
