package fingerprint

import (
	"net/url"
	"slices"
	"strings"
)

// field is one name=value of a query or a form.
type field struct {
	raw     string
	name    string // unescaped, as is the value; as it stands where it can't be
	value   string
	garbled bool   // one of them can't be unescaped
	group   string // fields of one group keep their order
}

// split returns the fields of a query or form that are not left out, in their order. Empty ones, as in a=1&&b=2, mean
// nothing to anyone.
func split(raw string, omit func(name string) bool) []field {
	fields := make([]field, 0, strings.Count(raw, "&")+1)
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		f := field{raw: part}
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

// inOrder sorts fields by name and returns them. Fields of one name keep their order, and so do those of one list:
// to PHP and Rack, items[][id]=1&items[][n]=2&items[][id]=3 is two items, and in another order it would be others.
func inOrder(fields []field) []field {
	var lists []string
	for _, f := range fields {
		if base, rest, _ := strings.Cut(f.name, "["); strings.Contains("["+rest, "[]") {
			lists = append(lists, base)
		}
	}
	for i, f := range fields {
		fields[i].group = f.name
		if base, _, _ := strings.Cut(f.name, "["); slices.Contains(lists, base) {
			fields[i].group = base
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.group, b.group) })
	return fields
}
