package providertest

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/onceward/onceward/providers"
)

// list answers a look-up for a list with one page, newest first. base is the container of the list, or nil if
// it is not the server's.
func (s *Server) list(c *call, ways []asked, base any) Answer {
	look := ways[0].look
	found, looks := s.matched(c, ways)
	return paged{
		next: look.Next, items: look.Items, id: look.ID, base: base, size: s.size(c, look), n: len(found),
		item:   func(i int) any { return found[i].item(looks[i]) },
		cursor: func(i int) string { return cursorAt(found[i].seq) },
	}.answer(c)
}

// paged is a list that is shown page by page.
type paged struct {
	next      providers.Paging
	items, id string
	base      any // the list's container, or nil
	size, n   int // of a page; how many items there are
	item      func(i int) any
	cursor    func(i int) string // of the page behind an item
}

// answer shows the page that is asked for.
func (p paged) answer(c *call) Answer {
	next, from, base := p.next, 0, p.base
	loops := c.fault.kind == pageLoop
	if !loops {
		from = min(p.start(c), p.n)
	}
	to := min(from+p.size, p.n)
	items := []any{}
	for i := from; i < to; i++ {
		items = append(items, p.item(i))
	}
	if p.items == "[]" {
		base = items
	} else {
		if base == nil {
			base = map[string]any{}
		}
		base = put(base, steps(strings.TrimSuffix(p.items, "[]")), items, itself)
	}
	if c.fault.kind == noList {
		base = map[string]any{}
	}
	more := loops || to < p.n && (next.Style != providers.OnePage || next.More != "")
	if links, is := strings.CutSuffix(next.More, "[]"); is {
		all := []any{map[string]any{"rel": "self"}}
		if more {
			all = append(all, map[string]any{"rel": "next"})
		}
		base = put(base, steps(links), all, itself)
	} else if next.More != "" {
		base = put(base, steps(next.More), more, itself)
	}
	after := cursorAt(0)
	if to > from {
		after = p.cursor(to - 1)
	}
	if more {
		switch next.Style {
		case providers.PageCursor:
			base = put(base, steps(next.Cursor), after, itself)
		case providers.PageLink:
			base = put(base, steps(next.Cursor), c.link(after), itself)
		}
	}
	a := answerOf(http.StatusOK, base)
	if more && next.Style == providers.PageHeader {
		a.Header.Set(next.Cursor, after)
	}
	return a
}

// size is how many items a page has at most.
func (s *Server) size(c *call, look *providers.Lookup) int {
	size := look.Next.Size
	for name, literal := range pairsOf(look.Query) {
		if n, err := strconv.Atoi(c.r.URL.Query().Get(name)); literal == strconv.Itoa(look.Next.Size) && err == nil && n > 0 {
			size = min(size, n)
		}
	}
	size = cmp.Or(size, defaultPage)
	// If a page with fewer items is the last, the size is the contract's.
	if s.PageSize > 0 && (look.Next.Style != providers.PageLastID || look.Next.More != "") {
		size = min(size, s.PageSize)
	}
	return size
}

const defaultPage = 100

// start is the first item's number on the requested page.
func (p paged) start(c *call) int {
	next := p.next
	name := next.Param
	if next.Style == providers.PageLink {
		name = linkParam
	}
	text, asks := c.parameter(name)
	if !asks {
		return 0
	}
	switch next.Style {
	case providers.PageOffset:
		n, _ := strconv.Atoi(text)
		return max(n, 0)
	case providers.PageNumber:
		n, _ := strconv.Atoi(text)
		return max(n-1, 0) * p.size
	case providers.PageLastID:
		for i := range p.n {
			for _, id := range scalars(p.item(i), steps(cmp.Or(next.Cursor, p.id))) {
				if fmt.Sprint(id) == text {
					return i + 1
				}
			}
		}
		return p.n
	}
	for i := range p.n {
		if p.cursor(i) == text {
			return i + 1
		}
	}
	return 0
}

// cursorAt is the cursor of the page behind an effect's item.
func cursorAt(seq int) string { return "after " + strconv.Itoa(seq) }

// linkParam carries the cursor in the links of the server's own making.
const linkParam = "page[after]"

func (c *call) link(after string) string {
	to := *c.r.URL
	query := to.Query()
	query.Set(linkParam, after)
	to.Scheme, to.Host, to.RawQuery = "http", c.r.Host, query.Encode()
	if c.r.TLS != nil {
		to.Scheme = "https"
	}
	return to.String()
}
