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
	// Optional serves a POST or PATCH without a key too, as any handler, and records nothing. Without Optional the answer
	// is 400.
	Optional bool

	// Formerly are the names that the endpoint had in earlier deploys of the program, the latest first. The first name of
	// all stays the recorded name, so a process from an earlier deploy finds the receipts too. Outcomes, logs and lists of
	// receipts have the first name as well. Keep the names here.
	Formerly []string

	// Retain is how long the recorded answer is given again, from the first request, at least 24 hours. Default: 7 days.
	Retain time.Duration

	// RefuseFor is how long after Retain the key is refused, and not taken for a new key. Negative means not at all. If the
	// handler makes calls through Options.Client, a used key is refused after RefuseFor too, since the calls are not made
	// again. Default: Config.Keep, and 23 days if Keep is less or there is no client.
	RefuseFor time.Duration

	// Limit is the longest time for one run of the handler, after any wait for the key, at most 10 minutes. Limit also
	// bounds the wait for a request's body if the HTTP server has no ReadTimeout. Default: 30 seconds.
	Limit time.Duration

	// Held is the longest time that the request's transaction may be open. Then the handler's context ends, and nothing is
	// kept. On SQLite the journal records nothing else meanwhile. On PostgreSQL, a handler that ignores the context holds
	// the transaction until the handler returns. Default: 5 seconds, or Limit if Limit is less.
	Held time.Duration

	// Wait is how long a request waits for another request with the same key in this process. Default: 0, a 409 at once.
	Wait time.Duration

	// MaxRequest bounds a request's body, and MaxAnswer an answer's body with the kept headers, in bytes. If the key has a
	// receipt, a larger body is compared with the receipt. Default: 1 MiB each.
	MaxRequest, MaxAnswer int64

	// Omit names members of the body, as paths with dots, that may differ in a repeated request. A deploy that changes Omit
	// refuses the keys of earlier requests with such a member.
	Omit []string

	// KeepHeaders are answer headers to keep, besides the usual headers. A header that belongs to a single exchange is
	// refused: a cookie, a CORS or hop-by-hop header, or the server's own mark, such as Idempotent-Replayed.
	KeepHeaders []string

	// KeyBytes are the least and the most bytes in a key without a receipt. Default: 8 and 255.
	KeyBytes [2]int

	// MayReplay is called before a recorded answer is given again, since the caller may have lost the right to the answer.
	// After an error the answer is 403. Nil means that every authenticated caller may have the answer.
	MayReplay func(*http.Request, journal.Receipt) error
}

var endpointName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// keptHeaders are the recorded headers of an answer. All others belong to the first exchange alone.
var keptHeaders = []string{"Content-Type", "Content-Language", "Content-Disposition", "Content-Location", "Location", "Etag",
	"Last-Modified", "Link", "Preference-Applied", "Deprecation", "Sunset", "X-Content-Type-Options"}

// neverKept are headers that would harm a caller of a replay, or that the server sets anew.
var neverKept = regexp.MustCompile(`^(Idempotent-Replayed|Idempotency-.*|Set-Cookie|Www-Authenticate|Access-Control-.*|Date|Connection|Keep-Alive|Proxy-.*|Te|Trailer|Transfer-Encoding|Upgrade|Content-Encoding|Content-Length|Vary)$`)

const (
	minRetain = 24 * time.Hour   // the least Endpoint.Retain
	maxLimit  = 10 * time.Minute // the largest Endpoint.Limit
)

const (
	retain    = 7 * 24 * time.Hour  // Endpoint.Retain by default
	refuseFor = 23 * 24 * time.Hour // the least Endpoint.RefuseFor by default
)

// checked returns e with defaults, and panics after a mistake in the program.
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
