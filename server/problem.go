package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// Problem is why a request with a key is not served.
type Problem struct {
	Name       string // of the situation, such as "key-reused": it never changes
	Status     int
	Detail     string // for the caller's developers; it names nothing of another request
	RetryAfter int    // seconds after which to ask again with the same key; 0: asking again does not help
}

// The problems.
var (
	keyMissing      = Problem{"key-missing", http.StatusBadRequest, "The request needs a key in the Idempotency-Key header.", 0}
	keyMalformed    = Problem{"key-malformed", http.StatusBadRequest, "", 0}
	requestTooLarge = Problem{"request-too-large", http.StatusRequestEntityTooLarge, "The request's body is larger than this endpoint takes.", 0}
	requestBroken   = Problem{"request-broken", http.StatusBadRequest, "The request's body ended early. Ask again with the same key.", 1}
	callerUnknown   = Problem{"internal", http.StatusInternalServerError, "", 0}
	replayForbidden = Problem{"replay-forbidden", http.StatusForbidden, "The answer under this key may not be given to this caller.", 0}
	keyReused       = Problem{"key-reused", http.StatusUnprocessableEntity, "The key was used for another request. Use a new key for a new request.", 0}
	inFlight        = Problem{"in-flight", http.StatusConflict, "A request with this key is being served. Ask again with the same key.", 1}
	outcomeUnknown  = Problem{"outcome-unknown", http.StatusConflict, "It is not known whether the first request with this key took effect. A person has to find out. Do not use a new key.", 60}
	keyExpired      = Problem{"key-expired", http.StatusGone, "The key has expired. The request was served under it, and its answer is not kept any more.", 0}
	notRecordable   = Problem{"answer-not-recordable", http.StatusInternalServerError, "The answer can't be recorded, and nothing is.", 0}
	tooSlow         = Problem{"too-slow", http.StatusServiceUnavailable, "It took too long, and nothing is recorded. Ask again with the same key.", 1}
	storeFailed     = Problem{"store", http.StatusServiceUnavailable, "The request can't be recorded. Ask again with the same key.", 5}
	storeRestored   = Problem{"restored", http.StatusServiceUnavailable, "The request can't be recorded. Ask again with the same key.", 60}
	notDone         = Problem{"not-done", http.StatusServiceUnavailable, "Nothing is recorded. Ask again with the same key.", 1}
	askAgain        = Problem{"ask-again", http.StatusServiceUnavailable, "It is not known yet whether it was done. Ask again with the same key.", 1}
	newerRelease    = Problem{"newer-release", http.StatusServiceUnavailable, "The key was used at a newer release of this service. Ask again with the same key.", 5}
	inDoubt         = Problem{"in-doubt", http.StatusServiceUnavailable, "It is not known whether it was done.", 0}
	tooMany         = Problem{"too-many", http.StatusTooManyRequests, "Too many requests of this caller are being served. Ask again with the same key.", 1}
	pending         = Problem{"pending", http.StatusServiceUnavailable, "It is under way. Ask again with the same key.", 5}
	setAside        = Problem{"failed", http.StatusInternalServerError, "It has failed too often, and a person has to see to it. Do not use a new key.", 0}
	handlerMisused  = Problem{"internal", http.StatusInternalServerError, "", 0}
)

// Flavour says how problems are worded.
type Flavour interface {
	// Refuse answers by a problem. Its Retry-After is set already.
	Refuse(w http.ResponseWriter, p Problem)
}

type ietf struct{ doc string }

// IETF words problems as draft-ietf-httpapi-idempotency-key-header-07 does: RFC 9457, application/problem+json. doc
// is the address of a page that describes the service's keys. A problem's type is a fragment of doc. Empty: there is
// none.
func IETF(doc string) Flavour { return ietf{doc} }

func (f ietf) Refuse(w http.ResponseWriter, p Problem) {
	kind := "about:blank"
	if f.doc != "" {
		kind = f.doc + "#" + p.Name
		w.Header().Set("Link", "<"+f.doc+`>; rel="describedby"`)
	}
	writeJSON(w, "application/problem+json", p.Status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{kind, http.StatusText(p.Status), p.Status, p.Detail})
}

type stripe struct{}

// Stripe words problems like Stripe's API, for clients of the API: {"error":{"type":…,"code":…,"message":…}}. A problem
// that Stripe has no words for is an api_error, whose code is the problem's name, such as onceward_pending.
func Stripe() Flavour { return stripe{} }

// stripeCodes are the problems with Stripe's own wording (https://docs.stripe.com/error-codes,
// https://docs.stripe.com/api/idempotent_requests).
var stripeCodes = map[string]struct {
	status     int
	kind, code string
}{
	"key-reused":        {http.StatusBadRequest, "idempotency_error", ""},
	"in-flight":         {http.StatusConflict, "invalid_request_error", "idempotency_key_in_use"},
	"outcome-unknown":   {http.StatusConflict, "api_error", ""},
	"key-missing":       {http.StatusBadRequest, "invalid_request_error", ""},
	"key-malformed":     {http.StatusBadRequest, "invalid_request_error", ""},
	"request-too-large": {http.StatusRequestEntityTooLarge, "invalid_request_error", ""},
	"request-broken":    {http.StatusBadRequest, "invalid_request_error", ""},
	"key-expired":       {http.StatusGone, "invalid_request_error", ""},
	"replay-forbidden":  {http.StatusForbidden, "invalid_request_error", ""},
	"too-many":          {http.StatusTooManyRequests, "invalid_request_error", "rate_limit"},
}

func (stripe) Refuse(w http.ResponseWriter, p Problem) {
	status, kind, code := p.Status, "api_error", ""
	if is, ok := stripeCodes[p.Name]; ok {
		status, kind, code = is.status, is.kind, is.code
	}
	if code == "" && kind == "api_error" {
		code = "onceward_" + strings.ReplaceAll(p.Name, "-", "_")
	}
	if p.Name == outcomeUnknown.Name {
		w.Header().Set("Stripe-Should-Retry", "false")
	}
	type object struct {
		Type    string `json:"type"`
		Code    string `json:"code,omitempty"`
		Message string `json:"message"`
	}
	writeJSON(w, "application/json", status, struct {
		Error object `json:"error"`
	}{object{kind, code, p.Detail}})
}

func writeJSON(w http.ResponseWriter, mediaType string, status int, v any) {
	body, _ := json.Marshal(v) // strings and numbers: it can't fail
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// refuse answers by a problem.
func (s *Server) refuse(w http.ResponseWriter, p Problem) {
	w.Header().Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	s.opts.Flavour.Refuse(w, p)
}
