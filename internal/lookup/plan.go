package lookup

import (
	"cmp"
	"encoding/json"
	"errors"
	"hash/maphash"
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
	// MaxPages is the largest number of pages of one window that are read. A longer list is read in halves of the
	// window, if the look-up asks for windows.
	MaxPages = 20

	// MaxRequests is the largest number of requests that a sweep makes in all.
	MaxRequests = 100

	// MaxID is the longest id of an object that is used, in bytes. A longer text does not count as an id, since it
	// would be kept and printed.
	MaxID = 500

	// MaxBody is the largest body of a page, decoded, in bytes. Read one byte more, so that a longer one is
	// recognised.
	MaxBody = 4 << 20

	// maxHeld bounds what a sweep keeps of all its pages.
	maxHeld = 64 << 20
)

// PassedOver is the error of a look-up that cannot serve an operation, whatever its result would be.
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
	page     page
	requests int
	seed     maphash.Seed
	items    []Item
	held     int
	long     bool   // some of it was not read, since it is too long
	why      string // it is inconclusive
}

// page is the sweep's position in a window's list.
type page struct {
	path, query, body string // without what asks for the page
	param             string // its value; empty on the first page
	link              string // the query of a link, in place of all
	number            int    // of pages that were read
	from, offset      int    // the first of the window's items; how many there are
	asked             map[string]bool
	seen              map[uint64]bool // items of the window's, by their text
}

// Item is one of a list.
type Item struct {
	// Body is the item as it stood in the answer.
	Body []byte

	// ID is its id; empty if it has none, or more than one.
	ID string

	texts tables.Texts
}

// Shared reports whether the look-up's requests ask for a window and nothing of one
// operation, so that one sweep serves every operation that is in its window.
func Shared(look *providers.Lookup) bool {
	return !slices.ContainsFunc(asks(look), func(name string) bool { return name != "since" && name != "until" })
}

// asks returns the placeholders of a look-up's request.
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

// Plan returns the sweep of one of e's look-ups for an operation that was sent to it. If the look-up is [Shared], it
// serves all operations of a window by one account. Tables are those of a client, validated, and are not changed. A
// [*PassedOver] says why this look-up does not serve the operation. Another one may.
func Plan(p *providers.Provider, e *providers.Endpoint, look *providers.Lookup, about Subject, window Window) (*Sweep, error) {
	if why := unfit(e, look, &about); why != "" {
		return nil, &PassedOver{why}
	}
	paths := []string{look.ID, look.Created, lastID(look)}
	for _, same := range look.Same {
		paths = append(paths, same.Field)
	}
	for _, means := range look.Means {
		paths = append(paths, means.Field)
	}
	s := &Sweep{provider: p, endpoint: e, look: look, fields: tables.NewFields(paths...), about: about, window: window, seed: maphash.MakeSeed()}
	s.windows = []Window{window}
	if err := s.open(); err != nil {
		return nil, &PassedOver{reason(err)}
	}
	r, err := s.request()
	if err != nil {
		return nil, &PassedOver{reason(err)}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !harmless(p, r, s.page.body) {
		return nil, &PassedOver{"its method is " + r.Method + ", and the provider's table does not say that the request has no effect"}
	}
	return s, nil
}

// lastID returns the path, in an item, of the id that asks for the page after it.
func lastID(look *providers.Lookup) string {
	if look.Next.Style == providers.PageLastID && look.Next.Cursor != "" {
		return look.Next.Cursor
	}
	return look.ID
}

// unfit returns why the look-up cannot identify an operation, or "" if it can.
func unfit(e *providers.Endpoint, look *providers.Lookup, about *Subject) string {
	switch {
	case look.By == providers.ByKey && about.Key == "":
		return "the operation has no key"
	case look.By == providers.ByReference && about.Reference == "":
		return "the request carried no reference"
	}
	for _, same := range look.Same { // to read a list that nothing can match is of no use
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

// compares reports whether something of the request is compared besides its key and its reference.
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

// CanShowAMark reports whether an object that the look-up reads can show a mark of an operation, which has
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

// open begins with the first of the windows that are left.
func (s *Sweep) open() (err error) {
	w := s.windows[0]
	value := func(name string) (string, bool) {
		switch name {
		case "since":
			return written(w.Since, s.look.TimeLayout), true
		case "until":
			return written(w.Until, s.look.TimeLayout), true
		}
		return s.about.value(name)
	}
	p := page{from: len(s.items), asked: map[string]bool{}, seen: map[uint64]bool{}}
	if p.path, err = template.Expand(s.look.Path, template.Path, value); err != nil {
		return err
	}
	if p.query, err = template.Expand(s.look.Query, template.Query, value); err != nil {
		return err
	}
	if s.look.Body != "" {
		if p.body, err = template.Expand(s.look.Body, template.PlaceOf(s.look.Body), value); err != nil {
			return err
		}
	}
	if s.look.Next.Style == providers.PageNumber {
		p.param = "1"
	}
	s.page = p
	return nil
}

func written(t time.Time, layout string) string {
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

// Next returns the request to send next, with a context of its own, or nil when all is read or the sweep is
// inconclusive. Send it to no other host, follow no redirect, and pass its response to [Sweep.Read], or its failure
// to [Sweep.Fail].
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
	query, body := s.page.query, s.page.body
	var err error
	switch {
	case s.page.link != "":
		query = s.page.link
	case s.page.param == "":
	case body == "":
		query = withPair(query, s.look.Next.Param, s.page.param)
	case strings.HasPrefix(body, "{"):
		body, err = withField(body, s.look.Next, s.page.param)
	default:
		body = withPair(body, s.look.Next.Param, s.page.param)
	}
	if err != nil {
		return nil, err
	}
	return newRequest(s.endpoint, &s.about, s.look.Method, s.page.path, query, body, acceptJSON)
}

const acceptJSON = "application/json"

// newRequest makes a request to an expanded path at the operation's host. It has the operation's headers, except those
// that belong to the write. newRequest adds an Accept header if they have none.
func newRequest(e *providers.Endpoint, about *Subject, method, path, query, body, accept string) (*http.Request, error) {
	u := *about.URL
	u.RawQuery, u.Fragment, u.RawFragment, u.User, u.RawPath = query, "", "", nil, path
	u.Path, _ = url.PathUnescape(path) // template.Expand returns no path with malformed escapes
	r, err := http.NewRequest(cmp.Or(method, http.MethodGet), u.String(), strings.NewReader(body))
	if err != nil {
		return nil, errors.New("its URL is malformed")
	}
	for name, values := range about.Header {
		if !ofWrite(e, name) {
			r.Header[name] = slices.Clone(values)
		}
	}
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", accept)
	}
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

// ofWrite reports whether a header is about the request that was sent, its body or its key.
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

// harmless reports whether the table says of the request that it has no effect.
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

// withPair returns a query or a form with this value for a name, and no other.
func withPair(text, name, value string) string {
	var kept []string
	for pair := range strings.SplitSeq(text, "&") {
		spelt, _, _ := strings.Cut(pair, "=")
		if said, err := url.QueryUnescape(spelt); pair != "" && (err != nil || said != name) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(append(kept, url.QueryEscape(name)+"="+url.QueryEscape(value)), "&")
}

// withField returns a JSON body with the value that asks for a page.
func withField(body string, next providers.Paging, value string) (string, error) {
	var whole map[string]any
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&whole); err != nil {
		return "", errors.New("its body is not a JSON object")
	}
	at, names := whole, strings.Split(next.Param, ".")
	for _, name := range names[:len(names)-1] {
		inner, ok := at[name].(map[string]any)
		if !ok {
			if at[name] != nil {
				return "", errors.New("its body has no place for the page's parameter")
			}
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	var said any = value
	if next.Style == providers.PageOffset || next.Style == providers.PageNumber {
		said = json.Number(value)
	}
	at[names[len(names)-1]] = said
	text, err := json.Marshal(whole)
	return string(text), err
}
