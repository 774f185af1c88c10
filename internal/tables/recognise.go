package tables

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/providers"
)

// Recognises reports whether an answer with a 2xx is the provider's own, as far as the media types in p.Answers tell.
// body is the decoded body or its beginning, or nil if unknown.
//
// It returns true for every answer if p is nil or p.Answers is empty. It returns false for HTML, unless HTML is listed,
// and for markup, unless HTML or a type that ends in xml is listed. It also returns false for markup with a label of
// JSON. An unlisted type counts if application/json is listed and the body begins like a JSON object or array.
//
// A body that is empty or has only white space is the provider's with 204 and 205, and with a status listed in
// p.Answers. If the body is unknown, the type alone decides.
//
// Recognises works for recorded answers and new ones, and is safe for concurrent use.
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
	switch {
	case status == http.StatusNoContent, status == http.StatusResetContent:
		return true
	case body == nil, len(lines(header, "Content-Encoding")) > 0: // it says nothing as it stands
		return listed
	case first == 0:
		return slices.Contains(p.Answers, strconv.Itoa(status))
	case first == '<' && (isMedia(media, jsonMedia) || beginsHTML(body) && !slices.ContainsFunc(p.Answers, isHTML)):
		return false
	case first == '<':
		return slices.ContainsFunc(p.Answers, func(a string) bool { return isHTML(a) || strings.HasSuffix(a, "xml") })
	case listed:
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

// firstOf returns a body's first byte, after white space and the encoding mark, or 0.
func firstOf(body []byte) byte {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
	if len(body) == 0 {
		return 0
	}
	return body[0]
}

func success(status int) bool { return status >= 200 && status <= 299 }

const sourceForeign = "a success of another kind than the provider's: a proxy may have answered"
