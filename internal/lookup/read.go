package lookup

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// Fail ends the sweep: the request that Next returned had no answer, or none that can be
// used. why says so, without a secret.
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

// Read takes the answer of the request that Next returned: its body, decoded, up to
// [MaxBody] and a byte more.
func (s *Sweep) Read(status int, header http.Header, body []byte) {
	if s.why != "" || len(s.windows) == 0 {
		return
	}
	if why := answerUnfit(s.provider, status, header, body, s.look.Needs); why != "" {
		s.Fail(why)
		return
	}
	raw, problem := tables.Items(header, body, s.look.Items)
	switch {
	case problem != "":
		s.Fail(problem)
		return
	case s.look.Items == "" && (len(raw[0]) == 0 || raw[0][0] != '{'):
		s.Fail("the answer is not a JSON object")
		return
	case (s.look.Body != "" || s.look.Items != "") && complains(body):
		s.Fail("the answer lists errors")
		return
	}
	if s.held += len(body); s.held > maxHeld {
		s.tooLong()
		return
	}
	fresh := len(raw) == 0
	for _, text := range raw {
		item := Item{Body: text, texts: s.fields.Read(text)}
		if id, _ := item.texts.Only(s.look.ID); len(id) <= MaxID {
			item.ID = id
		}
		as := maphash.Bytes(s.seed, text)
		fresh = fresh || !s.page.seen[as]
		s.page.seen[as] = true
		s.items = append(s.items, item)
	}
	s.page.number++
	s.page.offset += len(raw)
	goesOn, why := s.turn(header, body, raw)
	switch {
	case why != "":
		s.Fail(why)
	case goesOn == ended:
		s.windows = s.windows[1:]
		s.reopen()
	case goesOn == another && !fresh:
		s.Fail("a page repeats earlier items only, and names a next page: the list goes in circles")
	case goesOn == cut, s.page.number >= MaxPages:
		s.halve()
	default:
		at := s.page.param + "\x00" + s.page.link
		if s.page.asked[at] {
			s.Fail("a page names an earlier page as the next one: the list goes in circles")
		}
		s.page.asked[at] = true
	}
}

// goesOn says how a list goes on behind a page.
type goesOn uint8

const (
	ended goesOn = iota
	another
	cut // there is more, or may be, that can't be asked for
)

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
	unit := time.Second
	if s.look.TimeLayout == "date" {
		unit = 24 * time.Hour
	}
	w := s.windows[0]
	if span := w.Until.Sub(w.Since); !since || !until || span < 4*unit {
		s.tooLong()
		return
	}
	middle := w.Since.Add(w.Until.Sub(w.Since) / 2)
	s.items = s.items[:s.page.from]
	s.windows = append([]Window{{w.Since, middle.Add(unit)}, {middle, w.Until}}, s.windows[1:]...)
	s.reopen()
}

// turn finds the cursor or link that asks for the next page.
func (s *Sweep) turn(header http.Header, body []byte, raw [][]byte) (next goesOn, why string) {
	by := s.look.Next
	if s.look.Items == "" {
		return ended, ""
	}
	told := false // that it goes on
	if by.More != "" {
		switch text, _ := tables.Member(body, by.More); text {
		case "true":
			told = true
		case "false":
			return ended, ""
		default:
			return ended, "the answer does not say in " + by.More + " whether the list goes on"
		}
	}
	switch by.Style {
	case providers.PageCursor, providers.PageHeader, providers.PageLink:
		cursor, clear := s.cursor(header, body)
		switch {
		case !clear:
			return ended, "the answer does not say clearly how the list goes on"
		case cursor == "" && told:
			return ended, "the answer says that the list goes on, and not how"
		case cursor == "":
			return ended, ""
		case by.Style == providers.PageLink:
			return another, s.follow(cursor)
		}
		s.page.param = cursor
	case providers.PageLastID:
		if !told && (len(raw) < by.Size || len(raw) == 0) {
			return ended, ""
		}
		id := ""
		if len(raw) > 0 {
			id, _ = s.items[len(s.items)-1].texts.Only(lastID(s.look))
		}
		if id == "" {
			return ended, "the list goes on behind an item without an id"
		}
		s.page.param = id
	case providers.PageOffset, providers.PageNumber:
		if len(raw) == 0 {
			return ended, ""
		}
		s.page.param = strconv.Itoa(s.page.offset)
		if by.Style == providers.PageNumber {
			s.page.param = strconv.Itoa(s.page.number + 1)
		}
	default:
		if told || by.Size > 0 && len(raw) >= by.Size {
			return cut, ""
		}
		return ended, ""
	}
	return another, ""
}

// cursor returns what the answer says of the next page.
func (s *Sweep) cursor(header http.Header, body []byte) (cursor string, clear bool) {
	if s.look.Next.Style != providers.PageHeader {
		return tables.Member(body, s.look.Next.Cursor)
	}
	values := header.Values(s.look.Next.Cursor)
	if len(values) == 0 {
		return "", true
	}
	return values[0], len(values) == 1
}

// follow takes the query of a link to the next page, if the link is to a page of this list. Otherwise it returns why
// not.
func (s *Sweep) follow(link string) (why string) {
	here := *s.about.URL
	here.RawQuery, here.RawPath = "", s.page.path
	here.Path, _ = url.PathUnescape(s.page.path) // as in newRequest
	there, err := here.Parse(link)
	if err != nil || there.Scheme != here.Scheme || !strings.EqualFold(there.Host, here.Host) || there.EscapedPath() != here.EscapedPath() {
		return "the link to the next page leads elsewhere"
	}
	if there.RawQuery == "" {
		return "the link to the next page has no query"
	}
	s.page.link = there.RawQuery
	return ""
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

// complains reports whether an answer has errors beside its data, as GraphQL's do: a list that
// comes with some may lack what they were about.
func complains(body []byte) bool {
	said := complaintFields.Read(body)
	return slices.ContainsFunc(complaints, func(field string) bool {
		return slices.ContainsFunc(said.All(field), func(text string) bool { return text != "" && text != "false" && text != "0" })
	})
}

// timeOf reads a time as [providers.Lookup.Created] says.
func timeOf(text string) (time.Time, bool) {
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
