package providertest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/providers"
)

// answer is a response before it is sent.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// seen is the answer as a client judges it.
func (a answer) seen(later bool) providers.Answer {
	return providers.Answer{Status: a.status, Header: a.header, Body: a.body, Later: later}
}

func (a answer) head(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	if a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
}

// A write fails when the client has gone away, which is the client's affair.
func (a answer) write(w http.ResponseWriter) {
	a.head(w)
	_, _ = w.Write(a.body)
}

// cut sends the headers and the beginning of the body, and then drops the
// connection. An empty body has no beginning: all is dropped.
func (a answer) cut(w http.ResponseWriter, f Fault) {
	if len(a.body) == 0 {
		drop(w)
		return
	}
	at := f.bytes
	if f.bytes < 0 {
		at = int(f.part * float64(len(a.body)))
	}
	a.head(w)
	_, _ = w.Write(a.body[:min(at, len(a.body)-1)])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// saying returns an answer that the endpoint's own rules read as the verdict on
// a later attempt, if there is one.
func saying(route providers.Route, verdict providers.Verdict) (answer, bool) {
	for _, rule := range route.Endpoint.Rules {
		if rule.Verdict != verdict {
			continue
		}
		if a := example(rule); route.Classify(a.seen(true)).Verdict == verdict {
			return a, true
		}
	}
	return answer{}, false
}

// byStatus returns the answer of a status fault. If a rule knows this very
// status by a field of the body, the body has that field.
func byStatus(route providers.Route, f Fault) answer {
	a := problem(f.status, "this answer is a scripted fault")
	for _, rule := range route.Endpoint.Rules {
		if rule.Status == f.status && rule.Through == 0 && rule.Header == "" && rule.Field != "" {
			a = example(rule)
			break
		}
	}
	maps.Copy(a.header, f.header)
	return a
}

// example is an answer that meets a rule's conditions.
func example(rule providers.Rule) answer {
	status := rule.Status
	if status == 0 {
		status = http.StatusConflict
	}
	a := problem(status, "this answer is made from the provider's rule: "+rule.Source)
	if rule.Header != "" {
		value := rule.Value
		if value == "" {
			value = "true"
		}
		a.header.Set(rule.Header, value)
	}
	if rule.Field != "" {
		value := rule.Equals
		if value == "" {
			value = "unspecified"
		}
		a.header.Set("Content-Type", "application/json")
		a.body = encode(nested(strings.Split(rule.Field, "."), value))
	}
	return a
}

// nested builds the JSON value that has a text at a path of steps like "error"
// or "errors[]".
func nested(steps []string, text string) any {
	if len(steps) == 0 {
		return text
	}
	name, array := strings.CutSuffix(steps[0], "[]")
	inner := nested(steps[1:], text)
	if array {
		inner = []any{inner}
	}
	return map[string]any{name: inner}
}

// problem is an error without a form of the provider's own: RFC 9457 problem
// details.
func problem(status int, detail string) answer {
	return answer{
		status: status,
		header: http.Header{"Content-Type": {"application/problem+json"}},
		body: encode(map[string]any{
			"title":  http.StatusText(status),
			"status": status,
			"detail": detail,
		}),
	}
}

// encode returns v, which holds maps, strings and numbers only, as JSON.
func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return slices.Concat(body, []byte("\n"))
}
