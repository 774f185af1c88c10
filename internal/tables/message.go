package tables

import (
	"net/http"
	"net/url"
	"strings"
)

// Message holds the parts of a request besides the method and path, for the search for the key and the action. The
// body of an [http.Request] could be read once only.
type Message struct {
	// Header holds the request's headers.
	Header http.Header

	// Query is the URL's query as it is encoded, without the question mark.
	Query string

	// Body is the whole body, as sent. Nil means not yet known, and a known empty body is not nil.
	Body []byte
}

// coded reports whether the body is compressed or in another opaque encoding.
func (m Message) coded() bool {
	for _, line := range lines(m.Header, "Content-Encoding") {
		if line = strings.TrimSpace(line); line != "" && !strings.EqualFold(line, "identity") {
			return true
		}
	}
	return false
}

// isForm reports whether the body announces itself as
// application/x-www-form-urlencoded.
func (m Message) isForm() bool {
	types := lines(m.Header, "Content-Type")
	return len(types) == 1 && mediaType(types[0]) == "application/x-www-form-urlencoded"
}

// mayBeJSON reports whether the body announces itself as JSON, or not at all.
func (m Message) mayBeJSON() bool {
	types := lines(m.Header, "Content-Type")
	if len(types) != 1 {
		return len(types) == 0
	}
	media := mediaType(types[0])
	return media == "" || media == "application/json" || strings.HasSuffix(media, "+json")
}

// mediaType returns the type in lower case, without its parameters.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// lines returns the header's lines, in whatever spelling its name was put there.
func lines(h http.Header, name string) []string {
	var found []string
	for spelt, values := range h {
		if strings.EqualFold(spelt, name) {
			if found == nil {
				found = values[:len(values):len(values)]
				continue
			}
			found = append(found, values...)
		}
	}
	return found
}

// pair is one name=value in a query or a form.
type pair struct {
	span        // in the text, without ampersands
	value  span // the text behind the equals sign; empty if there is none
	equals bool
}

// pairs finds the ones of a name, whichever way it is escaped.
func pairs(text, name string) (found []pair) {
	for at := 0; at <= len(text); {
		end := strings.IndexByte(text[at:], '&')
		if end < 0 {
			end = len(text)
		} else {
			end += at
		}
		spelt, _, equals := strings.Cut(text[at:end], "=")
		if at < end && unescaped(spelt) == name {
			p := pair{span: span{at, end}, value: span{end, end}, equals: equals}
			if equals {
				p.value.from = at + len(spelt) + 1
			}
			found = append(found, p)
		}
		at = end + 1
	}
	return found
}

func unescaped(s string) string {
	if text, err := url.QueryUnescape(s); err == nil {
		return text
	}
	return s
}

// withPair returns the text with the value in place of the pair's, or with the pair added at the end.
func withPair(text, name, value string, found []pair) string {
	value = url.QueryEscape(value)
	if len(found) == 0 {
		if text != "" && !strings.HasSuffix(text, "&") {
			text += "&"
		}
		return text + url.QueryEscape(name) + "=" + value
	}
	p := found[0]
	if !p.equals {
		value = "=" + value
	}
	return text[:p.value.from] + value + text[p.value.to:]
}

// withoutPairs returns the text without these pairs, which stand in its order.
func withoutPairs(text string, found []pair) string {
	if len(found) == 0 {
		return text
	}
	var kept strings.Builder
	at := 0
	for _, p := range found {
		kept.WriteString(text[at:p.from])
		if at = p.to; at < len(text) {
			at++ // the ampersand goes with it
		}
	}
	kept.WriteString(text[at:])
	if found[len(found)-1].to == len(text) { // none is left in front of the end
		return strings.TrimSuffix(kept.String(), "&")
	}
	return kept.String()
}
