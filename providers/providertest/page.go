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
	size, from := s.size(c, look), 0
	loops := c.fault.kind == pageLoop
	if !loops {
		from = min(s.start(c, look, found), len(found))
	}
	to := min(from+size, len(found))
	items := []any{}
	for i := from; i < to; i++ {
		items = append(items, found[i].item(looks[i]))
	}
	if look.Items == "[]" {
		base = items
	} else {
		if base == nil {
			base = map[string]any{}
		}
		base = put(base, steps(strings.TrimSuffix(look.Items, "[]")), items, itself)
	}
	if c.fault.kind == noList {
		base = map[string]any{}
	}
	next := look.Next
	more := loops || to < len(found) && next.Style != providers.OnePage
	if next.More != "" {
		base = put(base, steps(next.More), more, itself)
	}
	after := cursorAt(0)
	if to > from {
		after = cursorAt(found[to-1].seq)
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

// start is the number of the first item of the page that is asked for.
func (s *Server) start(c *call, look *providers.Lookup, found []*creation) int {
	next := look.Next
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
		return max(n-1, 0) * s.size(c, look)
	case providers.PageLastID:
		for i, o := range found {
			for _, id := range scalars(o.item(look), steps(cmp.Or(next.Cursor, look.ID))) {
				if fmt.Sprint(id) == text {
					return i + 1
				}
			}
		}
		return len(found)
	}
	for i, o := range found {
		if cursorAt(o.seq) == text {
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
