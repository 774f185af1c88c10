package onceward

import (
	"bytes"
	"encoding/json"
	"strings"
)

// nestsTokenRequest tells a request for a token by what a body of JSON or XML calls its
// members, elements and attributes, at whatever depth. It looks at names alone and parses
// nothing, so that what is malformed is read too.
func nestsTokenRequest(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n\ufeff")
	if !mayTell(body) {
		return false // spares reading it
	}
	var asks, isClient, showsIt bool
	see := func(name string) {
		switch strings.ToLower(name) {
		case "grant_type", "granttype", "requestsecuritytoken":
			asks = true
		case "client_id", "clientid":
			isClient = true
		case "client_secret", "clientsecret", "client_assertion", "clientassertion":
			showsIt = true
		}
	}
	switch body[0] {
	case '<':
		eachTag(body, see)
	case '{', '[':
		eachName(body, see)
	}
	return asks || isClient && showsIt
}

// maxNameBelow is more than a name that tells something takes, in bytes, each character escaped.
const maxNameBelow = 256

// eachName hands over what a colon follows of the strings in a text of JSON.
func eachName(text []byte, take func(name string)) {
	for {
		begin := bytes.IndexByte(text, '"')
		if begin < 0 {
			return
		}
		text = text[begin:]
		end := 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(text) {
			return
		}
		quoted := text[:end+1]
		text = text[end+1:]
		if len(quoted) > maxNameBelow || !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte(":")) {
			continue
		}
		var name string
		if json.Unmarshal(quoted, &name) == nil {
			take(name)
		}
	}
}

// eachTag hands over the names of elements in XML, without their namespace's prefix, and
// those of attributes.
func eachTag(text []byte, take func(name string)) {
	for {
		_, rest, is := bytes.Cut(text, []byte("<"))
		if !is {
			return
		}
		tag := rest
		if end := bytes.IndexByte(rest, '>'); end >= 0 {
			tag = rest[:end]
		}
		text = rest[len(tag):]
		for word := range bytes.FieldsFuncSeq(tag, func(r rune) bool { return strings.ContainsRune("/:= \t\r\n\"'", r) }) {
			take(string(word))
		}
	}
}
