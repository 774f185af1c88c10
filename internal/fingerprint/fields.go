package fingerprint

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// field is one name=value in a query or a form.
type field struct {
	raw     string
	name    string // unescaped, as is the value; as it stands where it can't be
	value   string
	garbled bool   // one of them can't be unescaped
	group   string // fields in one group keep their order
	at      int    // its place among all
}

// split returns the fields in a query or form that are not left out, in their order. Empty ones, as in a=1&&b=2, mean
// nothing to anyone. Once the watch has ended some may be missing.
func split(raw string, omit func(name string) bool, w *watch) []field {
	n := 0
	for part := range strings.SplitSeq(raw, "&") {
		if part != "" {
			n++
		}
	}
	fields := make([]field, 0, n)
	for part := range strings.SplitSeq(raw, "&") {
		if w.ended() {
			break
		}
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		f := field{raw: part, at: len(fields)}
		f.unescape(&f.name, name)
		f.unescape(&f.value, value)
		if omit == nil || !omit(f.name) {
			fields = append(fields, f)
		}
	}
	return fields
}

func (f *field) unescape(to *string, s string) {
	*to = s
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return // url.QueryUnescape takes many times as long to see that
	}
	if text, err := url.QueryUnescape(s); err == nil {
		*to = text
	} else {
		f.garbled = true
	}
}

// inOrder returns the fields sorted by name. Fields with one name keep their order, and so do those in one list. To PHP
// and Rack, items[][id]=1&items[][n]=2&items[][id]=3 is two items, and another order would make other items.
func inOrder(fields []field) []*field {
	lists := map[string]bool{}
	for i := range fields {
		if base, rest, in := strings.Cut(fields[i].name, "["); in && strings.Contains("["+rest, "[]") {
			lists[base] = true
		}
	}
	sorted := make([]*field, len(fields))
	for i := range fields {
		f := &fields[i]
		f.group = f.name
		if base, _, _ := strings.Cut(f.name, "["); lists[base] {
			f.group = base
		}
		sorted[i] = f
	}
	slices.SortFunc(sorted, func(a, b *field) int {
		return cmp.Or(strings.Compare(a.group, b.group), cmp.Compare(a.at, b.at))
	})
	return sorted
}
