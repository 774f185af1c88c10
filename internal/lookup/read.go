package lookup

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// Fail ends the sweep after a request from Next without a usable answer. why gives the reason, without a secret.
func (s *Sweep) Fail(why string) {
	if s.why == "" {
		s.why = why
	}
}

// Why returns why the sweep is inconclusive, too long or not done, or "" if it is whole.
func (s *Sweep) Why() string {
	switch {
	case s.why != "":
		return s.why
	case len(s.windows) > 0:
		return "the list was not read to its end"
	case s.long:
		return "the list is longer than Onceward reads"
	}
	return ""
}

func (s *Sweep) tooLong() { s.windows, s.long = nil, true }

// Read takes the answer to a request from Next: the decoded body, up to [MaxBody] and a byte more.
func (s *Sweep) Read(status int, header http.Header, body []byte) {
	if s.why != "" || len(s.windows) == 0 {
		return
	}
	raw, why := s.pages.Items(status, header, body)
	if why != "" {
		s.Fail(why)
		return
	}
	if s.held += len(body); s.held > maxHeld {
		s.tooLong()
		return
	}
	for _, text := range raw {
		item := Item{Body: text, texts: s.fields.Read(text)}
		if id, _ := item.texts.Only(s.look.ID); len(id) <= MaxID {
			item.ID = id
		}
		s.items = append(s.items, item)
	}
	switch more, why := s.pages.Turn(header, body, raw); {
	case why != "":
		s.Fail(why)
	case more == Ended:
		s.windows = s.windows[1:]
		s.reopen()
	case more == Cut:
		s.halve()
	}
}

func (s *Sweep) reopen() {
	if len(s.windows) == 0 {
		return
	}
	if err := s.open(); err != nil {
		s.Fail(reason(err))
	}
}

// halve reads the present window again, in two halves that overlap by what the layout of times
// can't tell apart.
func (s *Sweep) halve() {
	since, until := false, false
	for _, name := range asks(s.look) {
		since, until = since || name == "since", until || name == "until"
	}
	unit := UnitOf(s.look.TimeLayout)
	w := s.windows[0]
	if span := w.Until.Sub(w.Since); !since || !until || span < 4*unit {
		s.tooLong()
		return
	}
	middle := w.Since.Add(w.Until.Sub(w.Since) / 2)
	s.items = s.items[:s.from]
	s.windows = append([]Window{{w.Since, middle.Add(unit)}, {middle, w.Until}}, s.windows[1:]...)
	s.reopen()
}

// answerUnfit returns why an answer proves nothing, or "" if it may.
func answerUnfit(p *providers.Provider, status int, header http.Header, body []byte, needs string) string {
	permission := ""
	if needs != "" {
		permission = " (" + needs + ")"
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Sprintf("the provider answered %d: give the credential the permission to read this%s", status, permission)
	case status == http.StatusNotFound:
		return fmt.Sprintf("the provider answered 404: nothing is there, or the credential is not one that may see it%s", permission)
	case status == http.StatusTooManyRequests:
		return "the provider answered 429: it is asked too often"
	case status < 200 || status > 299 || status == http.StatusPartialContent:
		return fmt.Sprintf("the provider answered %d", status)
	case len(body) > MaxBody:
		return fmt.Sprintf("the answer is longer than %d MiB: ask for fewer items a page", MaxBody>>20)
	case len(bytes.TrimSpace(body)) > 0 && !tables.Recognises(p, status, header, body):
		return "the answer's media type is not the provider's: a proxy may have answered"
	}
	return ""
}

var complaints = []string{"error", "error.message", "error.code", "errors[]", "errors[].message", "errors[].code", "errors[].extensions.code"}

var complaintFields = tables.NewFields(complaints...)

// complains reports whether an answer has errors beside the data, as in GraphQL. Such a list may be incomplete.
func complains(body []byte) bool {
	said := complaintFields.Read(body)
	return slices.ContainsFunc(complaints, func(field string) bool {
		return slices.ContainsFunc(said.All(field), func(text string) bool { return text != "" && text != "false" && text != "0" })
	})
}

// TimeOf reads a time as [providers.Lookup.Created] says.
func TimeOf(text string) (time.Time, bool) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds > 1e11 && seconds <= 1e14 { // milliseconds, for the same years
			seconds /= 1e3
		}
		if !(seconds >= 1e8 && seconds <= 1e11) { // years 1973 to 5138; NaN is none
			return time.Time{}, false
		}
		whole := int64(seconds)
		return time.Unix(whole, int64((seconds-float64(whole))*1e9)).UTC(), true
	}
	if len(text) > 10 && text[10] == ' ' {
		text = text[:10] + "T" + text[11:]
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
