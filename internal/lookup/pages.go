package lookup

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// Pages is one list, read page by page: the requests for the pages and the answers' items.
type Pages struct {
	provider *providers.Provider
	list     List
	param    string // that asks for the next page; empty on the first page
	link     string // a link's query, in place of all
	number   int    // of pages that were read
	offset   int    // how many items they had
	asked    map[string]bool
	seen     map[uint64]bool // items, by their text
	seed     maphash.Seed
	lastID   *tables.Fields
}

// List says where a list is and how its answers are read.
type List struct {
	// URL is the list's, without a query. Query and Body are the first page's, without the part that requests a page.
	URL         *url.URL
	Query, Body string

	// Items, Next and Needs are the fields in [providers.Lookup].
	Items string
	Next  providers.Paging
	Needs string

	// LastID is the path, in an item, to the id that requests the next page, for PageLastID.
	LastID string

	// First is the first page's parameter, or "".
	First string

	// Long reads more than MaxPages. The reader ends then.
	Long bool
}

// More says how a list goes on behind a page.
type More uint8

const (
	// Ended: the page is the last one.
	Ended More = iota

	// Another: there is a next page.
	Another

	// Cut: there is more, or may be, and it is not requested: the table names no next page, or MaxPages were read.
	Cut
)

// NewPages returns a list's pages.
func NewPages(p *providers.Provider, list List) *Pages {
	g := &Pages{
		provider: p, list: list, param: list.First,
		asked: map[string]bool{}, seen: map[uint64]bool{}, seed: maphash.MakeSeed(),
	}
	switch list.Next.Style {
	case providers.PageNumber:
		g.param = "1"
	case providers.PageLastID:
		g.lastID = tables.NewFields(list.LastID)
	}
	return g
}

// Request returns the next page request's query and body.
func (g *Pages) Request() (query, body string, err error) {
	query, body = g.list.Query, g.list.Body
	switch {
	case g.link != "":
		return g.link, body, nil
	case g.param == "":
		return query, body, nil
	}
	var value any = g.param
	if g.list.Next.Style == providers.PageOffset || g.list.Next.Style == providers.PageNumber {
		value = json.Number(g.param)
	}
	return With(query, body, g.list.Next.Param, value)
}

// Items returns an answer's items, or the reason for unusable ones. body is decoded, and at most [MaxBody] and a
// byte more.
func (g *Pages) Items(status int, header http.Header, body []byte) (items [][]byte, why string) {
	if why := answerUnfit(g.provider, status, header, body, g.list.Needs); why != "" {
		return nil, why
	}
	items, problem := tables.Items(header, body, g.list.Items)
	switch {
	case problem != "":
		return nil, problem
	case g.list.Items == "" && (len(items[0]) == 0 || items[0][0] != '{'):
		return nil, "the answer is not a JSON object"
	case (g.list.Body != "" || g.list.Items != "") && complains(body):
		return nil, "the answer lists errors"
	}
	return items, ""
}

// Turn goes to the next page, as the answer with these items says. why says what keeps the list from being read.
func (g *Pages) Turn(header http.Header, body []byte, items [][]byte) (more More, why string) {
	fresh := len(items) == 0
	for _, text := range items {
		as := maphash.Bytes(g.seed, text)
		fresh = fresh || !g.seen[as]
		g.seen[as] = true
	}
	g.number++
	g.offset += len(items)
	more, why = g.turn(header, body, items)
	switch {
	case why != "" || more != Another:
		return more, why
	case !fresh:
		return Ended, "a page repeats earlier items only, and names a next page: the list goes in circles"
	case g.number >= MaxPages && !g.list.Long:
		return Cut, ""
	}
	at := g.param + "\x00" + g.link
	if g.asked[at] {
		return Ended, "a page names an earlier page as the next one: the list goes in circles"
	}
	g.asked[at] = true
	return Another, ""
}

// turn finds the cursor or link that asks for the next page.
func (g *Pages) turn(header http.Header, body []byte, items [][]byte) (more More, why string) {
	by := g.list.Next
	if g.list.Items == "" {
		return Ended, ""
	}
	told := false // that it goes on
	if by.More != "" {
		var why string
		if told, why = g.goesOn(header, body); why != "" || !told && by.Style != providers.OnePage {
			return Ended, why
		}
	}
	switch by.Style {
	case providers.PageCursor, providers.PageHeader, providers.PageLink:
		cursor, clear := g.cursor(header, body)
		switch {
		case !clear:
			return Ended, "the answer does not say clearly how the list goes on"
		case cursor == "" && told:
			return Ended, "the answer says that the list goes on, and not how"
		case cursor == "":
			return Ended, ""
		case by.Style == providers.PageLink:
			return Another, g.follow(cursor)
		}
		g.param = cursor
	case providers.PageLastID:
		if !told && (len(items) < by.Size || len(items) == 0) {
			return Ended, ""
		}
		id := "" // of the last item that has one: those behind it come again
		for i := len(items) - 1; i >= 0 && id == ""; i-- {
			id, _ = g.lastID.Read(items[i]).Only(g.list.LastID)
		}
		if id == "" {
			return Ended, "the list goes on behind an item without an id"
		}
		g.param = id
	case providers.PageOffset, providers.PageNumber:
		if len(items) == 0 {
			return Ended, ""
		}
		g.param = strconv.Itoa(g.offset)
		if by.Style == providers.PageNumber {
			g.param = strconv.Itoa(g.number + 1)
		}
	default:
		if told || by.Size > 0 && len(items) >= by.Size {
			return Cut, ""
		}
		return Ended, ""
	}
	return Another, ""
}

// linkFields are a link's fields.
var linkFields = tables.NewFields("rel")

// goesOn reports whether the answer says by More that the list goes on.
func (g *Pages) goesOn(header http.Header, body []byte) (told bool, why string) {
	more := g.list.Next.More
	if strings.HasSuffix(more, "[]") {
		links, problem := tables.Items(header, body, more)
		return slices.ContainsFunc(links, func(link []byte) bool {
			rel, _ := linkFields.Read(link).Only("rel")
			return rel == "next"
		}), problem
	}
	switch text, _ := tables.Member(body, more); text {
	case "true":
		return true, ""
	case "false":
		return false, ""
	}
	return false, "the answer does not say in " + more + " whether the list goes on"
}

// cursor returns what the answer says about the next page.
func (g *Pages) cursor(header http.Header, body []byte) (cursor string, clear bool) {
	if g.list.Next.Style != providers.PageHeader {
		return tables.Member(body, g.list.Next.Cursor)
	}
	values := header.Values(g.list.Next.Cursor)
	if len(values) == 0 {
		return "", true
	}
	return values[0], len(values) == 1
}

// follow takes the query from a link to the next page, if the link is to a page in this list. Otherwise it returns why
// not.
func (g *Pages) follow(link string) (why string) {
	here := g.list.URL
	there, err := here.Parse(link)
	if err != nil || there.Scheme != here.Scheme || !strings.EqualFold(there.Host, here.Host) || there.EscapedPath() != here.EscapedPath() {
		return "the link to the next page leads elsewhere"
	}
	if there.RawQuery == "" {
		return "the link to the next page has no query"
	}
	g.link = there.RawQuery
	return ""
}

// With returns a query and a body with this value for a parameter, and no other. The parameter is that of
// [providers.Paging]: in the query or, if there is a body, in the body. The value is a string, a [json.Number] or a
// []string, which is one parameter for each.
func With(query, body, name string, value any) (string, string, error) {
	if strings.HasPrefix(body, "{") {
		body, err := withField(body, name, value)
		return query, body, err
	}
	var texts []string
	switch value := value.(type) {
	case string:
		texts = []string{value}
	case json.Number:
		texts = []string{value.String()}
	case []string:
		texts = value
	}
	if body == "" {
		return withPairs(query, name, texts), body, nil
	}
	return query, withPairs(body, name, texts), nil
}

// withPairs returns a query or a form with these values for a name, and no other.
func withPairs(text, name string, values []string) string {
	var kept []string
	for pair := range strings.SplitSeq(text, "&") {
		spelt, _, _ := strings.Cut(pair, "=")
		if said, err := url.QueryUnescape(spelt); pair != "" && (err != nil || said != name) {
			kept = append(kept, pair)
		}
	}
	for _, value := range values {
		kept = append(kept, url.QueryEscape(name)+"="+url.QueryEscape(value))
	}
	return strings.Join(kept, "&")
}

// withField returns a JSON body with the value at a dotted path.
func withField(body, path string, value any) (string, error) {
	var whole map[string]any
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&whole); err != nil {
		return "", errors.New("its body is not a JSON object")
	}
	at, names := whole, strings.Split(path, ".")
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
	at[names[len(names)-1]] = value
	text, err := json.Marshal(whole)
	return string(text), err
}
