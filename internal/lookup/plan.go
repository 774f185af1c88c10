package lookup

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/template"
	"github.com/onceward/onceward/providers"
)

const (
	// MaxPages is the most pages that are read in one window. A longer list is read in halves of the window, if the
	// look-up asks for windows.
	MaxPages = 20

	// MaxRequests is the most requests that a sweep makes in all.
	MaxRequests = 100

	// MaxID is the longest usable object id, in bytes. A longer text does not count as an id, since the journal and
	// logs would hold the text.
	MaxID = 500

	// MaxBody is the largest body of a page, decoded, in bytes. Read one byte more, so that a longer one is
	// recognised.
	MaxBody = 4 << 20

	// maxHeld bounds what a sweep keeps from all its pages.
	maxHeld = 64 << 20
)

// PassedOver is the error for a look-up that cannot serve an operation, whatever the result would be.
type PassedOver struct{ Why string }

// Error returns why.
func (e *PassedOver) Error() string { return "the look-up is passed over: " + e.Why }

// Sweep is one pass of a look-up: its requests and their results.
type Sweep struct {
	provider *providers.Provider
	endpoint *providers.Endpoint
	look     *providers.Lookup
	fields   *tables.Fields
	about    Subject
	window   Window

	windows  []Window // that are still to be read, the present one first
	pages    *Pages   // of the present window
	from     int      // the present window's first item
	requests int
	items    []Item
	held     int
	long     bool   // some of it was not read, since it is too long
	why      string // it is inconclusive
}

// Item is one of a list.
type Item struct {
	// Body is the item as it stood in the answer.
	Body []byte

	// ID is the item's id, or empty for none or several.
	ID string

	texts tables.Texts
}

// Shared reports whether the look-up's requests ask for a window and not for one operation. One sweep then serves
// every operation in the window.
func Shared(look *providers.Lookup) bool {
	return !slices.ContainsFunc(asks(look), func(name string) bool { return name != "since" && name != "until" })
}

// asks returns a look-up request's placeholders.
func asks(look *providers.Lookup) []string {
	names, _ := template.Names(look.Path, template.Path)
	inQuery, _ := template.Names(look.Query, template.Query)
	names = append(names, inQuery...)
	if look.Body != "" {
		inBody, _ := template.Names(look.Body, template.PlaceOf(look.Body))
		names = append(names, inBody...)
	}
	return names
}

// Plan returns the sweep by one of e's look-ups for an operation that was sent to e. A [Shared] look-up serves all
// operations in a window by one account. Tables are a client's, validated, and not changed. A [*PassedOver] says why
// this look-up does not serve the operation. Another look-up may.
func Plan(p *providers.Provider, e *providers.Endpoint, look *providers.Lookup, about Subject, window Window) (*Sweep, error) {
	if why := unfit(e, look, &about); why != "" {
		return nil, &PassedOver{why}
	}
	paths := []string{look.ID, look.Created}
	for _, same := range look.Same {
		paths = append(paths, same.Field)
	}
	for _, means := range look.Means {
		paths = append(paths, means.Field)
	}
	s := &Sweep{provider: p, endpoint: e, look: look, fields: tables.NewFields(paths...), about: about, window: window}
	s.windows = []Window{window}
	if err := s.open(); err != nil {
		return nil, &PassedOver{reason(err)}
	}
	r, err := s.request()
	if err != nil {
		return nil, &PassedOver{reason(err)}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !harmless(p, r, s.pages.list.Body) {
		return nil, &PassedOver{"its method is " + r.Method + ", and the provider's table does not say that the request has no effect"}
	}
	return s, nil
}

// LastID returns the path, in an item, to the id that requests the next page. id is the path to the item's own id.
func LastID(next providers.Paging, id string) string {
	if next.Style == providers.PageLastID && next.Cursor != "" {
		return next.Cursor
	}
	return id
}

// unfit returns why the look-up cannot identify an operation, or "" if it can.
func unfit(e *providers.Endpoint, look *providers.Lookup, about *Subject) string {
	switch {
	case look.By == providers.ByKey && about.Key == "":
		return "the operation has no key"
	case look.By == providers.ByReference && about.Reference == "":
		return "the request carried no reference"
	}
	for _, same := range look.Same { // to read a list that nothing can match is useless
		if _, err := template.Expand(same.Is, template.Text, about.value); err != nil && !(same.Optional && missing(err)) {
			return reason(err)
		}
	}
	switch {
	case exact(look, about), look.By == providers.ByParent && look.Items == "":
		return ""
	case look.Created == "":
		return "similar objects differ by their time of creation, and the look-up shows none"
	}
	parent := look.Items == "" && strings.Contains(look.Path, "{reference}") || strings.Contains(look.Path, "{path.") || strings.Contains(look.Path, "{request.")
	if !parent && !compares(look.Same, about) {
		return "the look-up compares nothing else of this request that tells its object from others"
	}
	return ""
}

// compares reports whether the comparison has anything from the request besides the key and the reference.
func compares(all []providers.Same, about *Subject) bool {
	return slices.ContainsFunc(all, func(same providers.Same) bool {
		_, err := template.Expand(same.Is, template.Text, about.value)
		return !identifies(same) && !literal(same) && err == nil
	})
}

// exact reports whether what the look-up compares is the operation's alone.
func exact(look *providers.Lookup, about *Subject) bool {
	ours := func(text string) bool {
		return about.Key != "" && strings.Contains(text, "{key}") || about.ours() && strings.Contains(text, "{reference}")
	}
	return look.Items == "" && ours(look.Path) || slices.ContainsFunc(look.Same, func(same providers.Same) bool { return ours(same.Is) })
}

// CanShowAMark reports whether an object that the look-up reads can show an operation's mark, which has
// a reference or not.
func CanShowAMark(look *providers.Lookup, reference bool) bool {
	return look.By == providers.ByKey || look.By == providers.ByParent && look.Items == "" ||
		reference && slices.ContainsFunc(look.Same, func(same providers.Same) bool { return strings.Contains(same.Is, "{reference}") })
}

// identifies reports whether the key or the reference is compared.
func identifies(same providers.Same) bool {
	return strings.Contains(same.Is, "{key}") || strings.Contains(same.Is, "{reference}")
}

func reason(err error) string {
	var refused *template.Error
	switch {
	case errors.As(err, &refused) && refused.Missing:
		return "the request does not have {" + refused.Name + "}"
	case errors.As(err, &refused) && refused.Name != "":
		return "{" + refused.Name + "}: " + refused.Reason
	case errors.As(err, &refused):
		return refused.Reason
	}
	return err.Error()
}

// missing reports whether a template asks for what the request does not have.
func missing(err error) bool {
	refused, ok := errors.AsType[*template.Error](err)
	return ok && refused.Missing
}

// open begins with the first window that is left.
func (s *Sweep) open() (err error) {
	w := s.windows[0]
	value := func(name string) (string, bool) {
		switch name {
		case "since":
			return Written(w.Since, s.look.TimeLayout), true
		case "until":
			return Written(w.Until, s.look.TimeLayout), true
		}
		return s.about.value(name)
	}
	list := List{Items: s.look.Items, Next: s.look.Next, Needs: s.look.Needs, LastID: LastID(s.look.Next, s.look.ID)}
	path, err := template.Expand(s.look.Path, template.Path, value)
	if err != nil {
		return err
	}
	list.URL = PathOf(s.about.URL, path)
	if list.Query, err = template.Expand(s.look.Query, template.Query, value); err != nil {
		return err
	}
	if s.look.Body != "" {
		if list.Body, err = template.Expand(s.look.Body, template.PlaceOf(s.look.Body), value); err != nil {
			return err
		}
	}
	s.pages, s.from = NewPages(s.provider, list), len(s.items)
	return nil
}

// PathOf returns an expanded path's URL at another URL's host.
func PathOf(host *url.URL, path string) *url.URL {
	u := &url.URL{Scheme: host.Scheme, Host: host.Host, RawPath: path}
	u.Path, _ = url.PathUnescape(path) // template.Expand returns no path with malformed escapes
	return u
}

// Written returns a time in [providers.Lookup.TimeLayout]'s layout.
func Written(t time.Time, layout string) string {
	switch t = t.UTC(); layout {
	case "unix":
		return strconv.FormatInt(t.Unix(), 10)
	case "date":
		return t.Format(time.DateOnly)
	case "rfc3339":
		return t.Format(time.RFC3339)
	}
	return t.Format(layout)
}

// UnitOf returns the span that a [providers.Lookup.TimeLayout] layout is taken to distinguish: a second or, if the
// layout has no time, a day.
func UnitOf(layout string) time.Duration {
	at := time.Date(2025, 11, 22, 21, 43, 34, 0, time.UTC)
	switch layout {
	case "unix", "rfc3339":
		return time.Second
	case "date":
		return 24 * time.Hour
	}
	if parsed, err := time.Parse(layout, at.Format(layout)); err == nil && parsed.Equal(at) {
		return time.Second
	}
	return 24 * time.Hour
}

// Serves returns why the sweep's list does not serve an operation, or "" if it does.
func (s *Sweep) Serves(about *Subject) (why string) {
	for _, name := range asks(s.look) {
		switch name {
		case "since":
			if about.read().Before(s.window.Since) {
				return "the window that was read begins after the operation was sent"
			}
		case "until":
		default:
			read, _ := s.about.value(name)
			if own, _ := about.value(name); own != read {
				return "another list was read: {" + name + "} differs"
			}
		}
	}
	if s.about.URL.Scheme != about.URL.Scheme || !strings.EqualFold(s.about.URL.Host, about.URL.Host) || s.about.Account != about.Account {
		return "the list of another host or account was read"
	}
	return ""
}

// Next returns the request to send next, with a separate context, or nil when all is read or the sweep is
// inconclusive. Send the request to no other host, and follow no redirect. Pass the response to [Sweep.Read], or a
// failure to [Sweep.Fail].
func (s *Sweep) Next() *http.Request {
	if s.why != "" || len(s.windows) == 0 {
		return nil
	}
	if s.requests >= MaxRequests {
		s.tooLong()
		return nil
	}
	r, err := s.request()
	if err != nil {
		s.Fail(reason(err))
		return nil
	}
	s.requests++
	return r
}

// Requests returns how many requests were made.
func (s *Sweep) Requests() int { return s.requests }

func (s *Sweep) request() (*http.Request, error) {
	query, body, err := s.pages.Request()
	if err != nil {
		return nil, err
	}
	return newRequest(s.endpoint, &s.about, s.look.Method, s.pages.list.URL, query, body)
}

// newRequest makes a look-up's request, with the operation's headers except headers about the write.
func newRequest(e *providers.Endpoint, about *Subject, method string, at *url.URL, query, body string) (*http.Request, error) {
	r, err := NewRequest(method, at, query, body)
	if err != nil {
		return nil, err
	}
	for name, values := range about.Header {
		if !ofWrite(e, name) {
			r.Header[name] = slices.Clone(values)
		}
	}
	return r, nil
}

// NewRequest makes a request that accepts JSON, to a URL without a query. An empty method is GET. A body with a brace
// at the beginning is JSON, and otherwise a form.
func NewRequest(method string, at *url.URL, query, body string) (*http.Request, error) {
	u := *at
	u.RawQuery = query
	r, err := http.NewRequest(cmp.Or(method, http.MethodGet), u.String(), strings.NewReader(body))
	if err != nil {
		return nil, errors.New("its URL is malformed")
	}
	r.Header.Set("Accept", "application/json")
	switch {
	case body == "":
		r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	case strings.HasPrefix(body, "{"):
		r.Header.Set("Content-Type", "application/json")
	default:
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r, nil
}

// ofWrite reports whether a header is about the operation's request, the body or the key.
func ofWrite(e *providers.Endpoint, name string) bool {
	if tables.Key(e.Key).InHeader(name) || e.Reference.Place == providers.KeyRawHeader && strings.EqualFold(name, e.Reference.Name) {
		return true
	}
	name = strings.ToLower(name)
	switch name {
	case "expect", "transfer-encoding", "accept-encoding", "digest", "prefer", "range", "trailer", "connection", "host", "authorization":
		return true
	}
	return strings.HasPrefix(name, "content-") || strings.HasPrefix(name, "if-") || strings.HasPrefix(name, "idempotency-") ||
		strings.HasSuffix(name, "-content-sha256") // of the body, as AWS signs it
}

// harmless reports whether the table marks the request as one without an effect.
func harmless(p *providers.Provider, r *http.Request, body string) bool {
	alone := p.Clone()
	alone.Hosts = nil
	router, err := tables.NewRouter([]providers.Provider{alone})
	if err != nil {
		return false
	}
	route := router.Route(r.Method, r.URL).For(tables.Message{Header: r.Header, Query: r.URL.RawQuery, Body: []byte(body)})
	return route.Listed && !route.Effect
}
