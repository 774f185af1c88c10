package providertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// inXML converts an answer in JSON to XML as EC2 writes it. Members become elements, and the items of an array become
// elements named item. An error is left as it is.
func (a Answer) inXML(c *call) Answer {
	body, is := parsed(a.Body)
	if !is || a.Status != http.StatusOK {
		return a
	}
	root := "Response"
	if form, err := url.ParseQuery(string(c.body)); err == nil && xmlName.MatchString(form.Get("Action")) {
		root = form.Get("Action") + root
	}
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<" + root + ` xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">`)
	writeXML(&b, body)
	b.WriteString("</" + root + ">\n")
	header := a.Header.Clone()
	header.Set("Content-Type", "text/xml;charset=UTF-8")
	return Answer{Status: a.Status, Header: header, Body: []byte(b.String())}
}

// xmlName matches the names of elements.
var xmlName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// writeXML writes the content of an element. It leaves out members whose names no element can have.
func writeXML(b *strings.Builder, v any) {
	element := func(name string, v any) {
		b.WriteString("<" + name + ">")
		writeXML(b, v)
		b.WriteString("</" + name + ">")
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if xmlName.MatchString(name) {
				element(name, v[name])
			}
		}
	case []any:
		for _, of := range v {
			element("item", of)
		}
	case string, bool, json.Number:
		b.WriteString(xmlText.Replace(fmt.Sprint(v)))
	}
}
