package providertest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"

	"github.com/onceward/onceward/internal/tables"
)

// Answer is a complete response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

func (a Answer) clone() Answer {
	a.Header = a.Header.Clone()
	if a.Header == nil {
		a.Header = http.Header{}
	}
	return a
}

// seen is the answer as a client judges it.
func (a Answer) seen(later bool) tables.Answer {
	return tables.Answer{Status: a.Status, Header: a.Header, Body: a.Body, Later: later}
}

func (a Answer) bodiless() bool {
	return a.Status == http.StatusNoContent || a.Status == http.StatusNotModified
}

func (a Answer) head(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header)
	if !a.bodiless() {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
}

// A write fails when the client has gone away, which is the client's affair.
func (a Answer) write(w http.ResponseWriter) {
	a.head(w)
	_, _ = w.Write(a.Body)
}

// problem is an error without a form of the provider's own: RFC 9457 problem
// details.
func problem(status int, detail string) Answer {
	a := answerOf(status, map[string]any{
		"title":  http.StatusText(status),
		"status": status,
		"detail": detail,
	})
	a.Header.Set("Content-Type", "application/problem+json")
	return a
}

// page is an error as something in front of the provider gives it.
func page(status int) Answer {
	title := strconv.Itoa(status) + " " + http.StatusText(status)
	return Answer{
		Status: status,
		Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		Body:   []byte("<html>\n<head><title>" + title + "</title></head>\n<body>\n<center><h1>" + title + "</h1></center>\n</body>\n</html>\n"),
	}
}

// answerOf is an answer whose body is a JSON value of maps, slices, strings and
// numbers only.
func answerOf(status int, value any) Answer {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return Answer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   append(body, '\n'),
	}
}
