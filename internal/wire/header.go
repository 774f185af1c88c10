package wire

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/secret"
)

// cutHeader is a header in a recorded answer, and so in a replay. It names the headers of which a part was not kept: a
// credential in a URL, or the whole header, since the headers were too large.
const cutHeader = "Onceward-Cut"

// isMark reports whether a header is one by which we mark replays. A provider's own headers of such a name are not
// kept, since they would be taken for ours.
func isMark(name string) bool {
	const prefix = "Onceward-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// maxKeptHeader bounds the kept part of an answer's headers, and of its trailers: names and values in bytes, and
// something for each. An answer that is no attack has a hundredth.
const maxKeptHeader = 64 << 10

// maxCutNames is the most headers that the mark names. "…" stands for the others.
const maxCutNames = 16

// RecordedHeader returns the headers or trailers of an answer that are recorded, the shortest first as far as they
// have room. It leaves out credentials, headers of one call's trace, and the credentials in URLs. h is not changed.
func RecordedHeader(h http.Header) http.Header {
	if len(h) == 0 {
		return nil
	}
	kept := make(http.Header, len(h))
	var marked []string
	size := 0
	for name, values := range h {
		if secret.Header(name) || secret.Propagated(name) || isMark(name) {
			continue
		}
		if name == "Location" && slices.ContainsFunc(values, isMalformed) {
			marked = append(marked, name)
			continue
		}
		values, isCut := withoutCredentials(name, values)
		if isCut {
			marked = append(marked, name)
		}
		kept[name] = values
		size += keptSize(name, values)
	}
	if size > maxKeptHeader {
		marked = append(marked, dropLongest(kept)...)
	}
	if len(marked) > 0 {
		slices.Sort(marked)
		kept[cutHeader] = []string{mark(slices.Compact(marked))}
	}
	return kept
}

// isMalformed reports whether a URL can't be read. Credentials can't be cut out of such a URL. No client can follow it.
func isMalformed(location string) bool {
	_, err := url.Parse(location)
	return err != nil
}

func keptSize(name string, values []string) (size int) {
	for _, v := range values {
		size += len(name) + len(v) + 32
	}
	return size
}

// dropLongest leaves h's shortest headers, as far as they have room, and returns the other names.
func dropLongest(h http.Header) (dropped []string) {
	names := slices.SortedFunc(maps.Keys(h), func(a, b string) int {
		return cmp.Or(cmp.Compare(keptSize(a, h[a]), keptSize(b, h[b])), cmp.Compare(a, b))
	})
	room := maxKeptHeader
	for _, name := range names {
		if room -= keptSize(name, h[name]); room < 0 {
			delete(h, name)
			dropped = append(dropped, name)
		}
	}
	return dropped
}

func mark(names []string) string {
	if len(names) > maxCutNames {
		names = append(names[:maxCutNames:maxCutNames], "…")
	}
	for i, name := range names {
		if len(name) > 128 {
			names[i] = name[:128] + "…"
		}
	}
	return strings.Join(names, ", ")
}

// withoutCredentials returns a header's values without the credentials in their URLs, or the same slice if there are
// none.
func withoutCredentials(name string, values []string) (kept []string, isCut bool) {
	kept = values
	for i, v := range values {
		text, found := secret.CutURLs(name, v)
		if !found {
			continue
		}
		if !isCut {
			kept, isCut = slices.Clone(values), true
		}
		kept[i] = text
	}
	return kept, isCut
}

// FreezeHeader splits a request's headers into the headers to journal and the names of the withheld headers. A header
// is withheld if it carries a credential, which may be in a URL, or goes with a signature, such as the signed date.
// Only the credentials are cut out of a Referer, since no caller has to supply it again. Headers that propagate a trace
// are in neither result: they belong to their caller only. The names are appended to room, which is empty.
func FreezeHeader(h http.Header, isKey func(name string) bool, room []string) (frozen http.Header, withheld []string) {
	frozen, withheld = make(http.Header, len(h)), room
	dated := secret.Dated(h)
	slices.Sort(dated)
	for name, values := range h {
		if isKey(name) || secret.Propagated(name) {
			continue
		}
		if !secret.Header(name) && !among(dated, http.CanonicalHeaderKey(name)) {
			cut, isCut := withoutCredentials(name, values)
			if !isCut || strings.EqualFold(name, "Referer") {
				frozen[name] = cut
				continue
			}
		}
		withheld = append(withheld, http.CanonicalHeaderKey(name))
	}
	if len(withheld) == 0 {
		return frozen, nil
	}
	slices.Sort(withheld)
	return frozen, slices.Clip(slices.Compact(withheld))
}

// among reports whether a name is in a sorted list. It is fast for a long list too: a stranger's headers may be passed
// on.
func among(names []string, name string) bool {
	_, is := slices.BinarySearch(names, name)
	return is
}
