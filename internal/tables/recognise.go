package tables

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/onceward/onceward/providers"
)

// Recognises reports whether an answer with a 2xx is the provider's own, as far as
// the media types in p.Answers tell it. body is the answer's, decoded, or a prefix
// of it; nil where it is not known.
//
// HTML is not, unless it is listed, and neither is markup, unless a type that
// ends in xml or HTML is, or what calls itself JSON and isn't; a body of another type than those listed is, if
// application/json is listed and the body begins as an object or array of JSON
// does. Without a body an answer is the provider's whatever its type, but HTML.
// Everything is where p.Answers is empty, or p is nil.
//
// It can be asked of a recorded answer as well as of a new one, and is safe for
// concurrent use.
func Recognises(p *providers.Provider, status int, header http.Header, body []byte) bool {
	if !success(status) {
		return false
	}
	if p == nil || len(p.Answers) == 0 {
		return true
	}
	types := lines(header, "Content-Type")
	var media string
	if len(types) > 0 {
		media = mediaType(types[0])
	}
	listed := slices.ContainsFunc(p.Answers, func(a string) bool { return isMedia(media, a) })
	if isHTML(media) {
		return listed
	}
	first := firstOf(body)
	if len(lines(header, "Content-Encoding")) > 0 {
		first = 0 // it says nothing as it stands
	}
	switch {
	case first == '<' && (isMedia(media, jsonMedia) || beginsHTML(body) && !slices.ContainsFunc(p.Answers, isHTML)):
		return false
	case first == '<':
		return slices.ContainsFunc(p.Answers, func(a string) bool { return isHTML(a) || strings.HasSuffix(a, "xml") })
	case listed || first == 0:
		return true
	}
	return slices.Contains(p.Answers, jsonMedia) && (first == '{' || first == '[')
}

const jsonMedia = "application/json"

// isMedia reports whether a media type is what a table calls listed.
func isMedia(media, listed string) bool {
	return media == listed || listed == jsonMedia && strings.HasSuffix(media, "+json")
}

func isHTML(media string) bool {
	return media == "text/html" || media == "application/xhtml+xml"
}

// beginsHTML reports whether a body begins as a page does.
func beginsHTML(body []byte) bool {
	at := bytes.IndexByte(body, '<')
	begins := strings.ToLower(string(body[at:min(len(body), at+len("<!doctype html"))]))
	return strings.HasPrefix(begins, "<html") || begins == "<!doctype html"
}

// firstOf is the byte that a body begins with, behind white space and the mark of
// its encoding; 0 if there is none.
func firstOf(body []byte) byte {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
	if len(body) == 0 {
		return 0
	}
	return body[0]
}

func success(status int) bool { return status >= 200 && status <= 299 }

const sourceForeign = "a success of another kind than the provider's: something in front of it answered"
