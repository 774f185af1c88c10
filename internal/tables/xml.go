package tables

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
)

// XMLAsJSON returns an answer in XML as the equivalent JSON, for [Items], [Member] and [Fields]. Otherwise it returns
// the problem that keeps the answer from being read, without a word of the body.
//
// The elements in the root element are the members of one object. An element with elements in it is an object again.
// It is an array if the first of them is called item: then all have to be. An element without elements is a string,
// or null if it holds only white space. At the path of a list, as of [Items], it is the empty array. Attributes and
// comments are left out.
//
// It is strict: UTF-8 only, no document type and so no entities but XML's own five, one namespace, no text beside
// elements, nested no deeper than JSON may be. It takes time and space in proportion to the body's length, which is
// at most a quarter of [MaxListBody].
func XMLAsJSON(header http.Header, body []byte, list string) (text []byte, problem string) {
	switch {
	case len(body) > MaxListBody/4:
		return nil, "the body is too long"
	case !saysXML(header):
		return nil, "the body does not say that it is XML"
	}
	x := xmlReader{in: xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))}
	var steps []string
	if list != "" {
		steps = strings.Split(list, ".")
	}
	if err := x.document(steps); err != nil {
		if foreign, ok := errors.AsType[foreignXML](err); ok {
			return nil, foreign.Error()
		}
		return nil, "the body is not XML, or cut short"
	}
	return x.out.Bytes(), ""
}

// saysXML reports whether the content type announces XML in UTF-8, or nothing at all.
func saysXML(h http.Header) bool {
	types := lines(h, "Content-Type")
	switch {
	case len(types) == 0:
		return true
	case len(types) > 1:
		return false
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	charset := parameters["charset"]
	return err == nil && (charset == "" || strings.EqualFold(charset, "utf-8")) &&
		(media == "text/xml" || media == "application/xml" || strings.HasSuffix(media, "+xml"))
}

// xmlReader writes what it reads.
type xmlReader struct {
	in        *xml.Decoder
	out       bytes.Buffer
	namespace string // of all elements
}

// foreignXML says what XML has that is not read here.
type foreignXML string

func (e foreignXML) Error() string { return "the body is XML of another kind: it has " + string(e) }

// document consumes all of the body: one element, with nothing around it that counts.
func (x *xmlReader) document(steps []string) error {
	for read := false; ; {
		token, err := x.in.Token()
		if errors.Is(err, io.EOF) && read {
			return nil
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if read {
				return foreignXML("two root elements")
			}
			read, x.namespace = true, token.Name.Space
			if err := x.element(steps, false, 1); err != nil {
				return err
			}
		case xml.CharData:
			if !blank(token) {
				return foreignXML("text outside the root element")
			}
		case xml.Directive:
			return foreignXML("a document type")
		}
	}
}

// element consumes the rest of an element whose start was read, and writes its value. The steps
// of the list's path go on from it; isList says that it is the list.
func (x *xmlReader) element(steps []string, isList bool, depth int) error {
	if depth > maxDepth {
		return foreignXML("elements that are nested too deep")
	}
	const item = "item"
	var said []byte
	closes := byte(0) // the byte that ends the value; 0: no element is in it yet
	for {
		token, err := x.in.Token()
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.CharData:
			if closes == 0 {
				said = append(said, token...)
			} else if !blank(token) {
				return foreignXML("text beside elements")
			}
		case xml.StartElement:
			name := token.Name.Local
			switch {
			case token.Name.Space != x.namespace:
				return foreignXML("two namespaces")
			case closes == 0 && !blank(said):
				return foreignXML("text beside elements")
			case closes == 0 && name == item:
				closes = ']'
				x.out.WriteByte('[')
			case closes == 0:
				closes = '}'
				x.out.WriteByte('{')
			case closes == ']' && name != item:
				return foreignXML("a list with something else in it")
			default:
				x.out.WriteByte(',')
			}
			inner, listed := steps, false
			if closes == '}' {
				x.string(name)
				x.out.WriteByte(':')
				inner, listed = below(steps, name)
			}
			if err := x.element(inner, listed, depth+1); err != nil {
				return err
			}
		case xml.EndElement:
			switch {
			case closes != 0:
				x.out.WriteByte(closes)
			case !blank(said):
				x.string(string(said))
			case isList:
				x.out.WriteString("[]")
			default:
				x.out.WriteString("null")
			}
			return nil
		case xml.Directive:
			return foreignXML("a document type")
		}
	}
}

// below returns how a path goes on in the member of a name, and whether that is an array on it.
func below(steps []string, name string) (rest []string, isList bool) {
	if len(steps) == 0 {
		return nil, false
	}
	at, isList := strings.CutSuffix(steps[0], "[]")
	if at != name {
		return nil, false
	}
	return steps[1:], isList
}

func (x *xmlReader) string(text string) {
	e := json.NewEncoder(&x.out)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)              // of a string it can't fail
	x.out.Truncate(x.out.Len() - 1) // its line break
}

func blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }
