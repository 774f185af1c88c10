package fingerprint

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
)

// The forms in which a body is hashed. Each is written before the bytes in its form, so a canonical body never equals
// another body's bytes.
const (
	formEmpty     = "empty"
	formBytes     = "bytes"
	formJSON      = "json"
	formJSONBytes = "json bytes" // JSON that has no canonical form without loss, the fields left out cut away
	formFields    = "fields"
	formMultipart = "multipart"
	formParts     = "parts" // of another multipart type than form-data
)

func writeBody(d *digester, in *Input) {
	if len(in.Body) == 0 {
		d.string(formEmpty)
		return
	}
	coding := strings.ToLower(strings.TrimSpace(in.ContentEncoding))
	if coding != "" && coding != "identity" {
		d.string(formBytes)
		d.bytes(in.Body)
		d.string(coding)
		return
	}
	mediaType, _, _ := strings.Cut(in.ContentType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	switch {
	case mediaType == "application/json", strings.HasSuffix(mediaType, "+json"),
		strings.HasPrefix(mediaType, "application/x-amz-json-"):
		d.json.folds = in.FoldNames
		form, content := d.json.canonical(in.Body, in.OmitFields, &d.watch)
		d.string(form)
		d.bytes(content)
	case mediaType == "application/x-www-form-urlencoded":
		writeForm(d, in)
	case mediaType == "multipart/form-data":
		writeMultipart(d, in, formMultipart, writeFormPart)
	case strings.HasPrefix(mediaType, "multipart/"):
		writeMultipart(d, in, formParts, writePart)
	default:
		d.string(formBytes)
		d.bytes(in.Body)
	}
}

func writeForm(d *digester, in *Input) {
	omit := func(name string) bool { return slices.Contains(in.OmitFields, name) }
	fields := split(string(in.Body), omit, &d.watch)
	if len(fields) == 0 {
		// A form with only the key is then the same request as a form without the key.
		d.string(formEmpty)
		return
	}
	if !slices.ContainsFunc(fields, unreadable) {
		d.string(formFields)
		for _, f := range inOrder(fields) {
			d.string(f.name)
			d.string(f.value)
		}
		return
	}
	d.string(formBytes)
	for _, f := range fields {
		d.string(f.raw)
	}
}

// unreadable reports whether servers may disagree on what a form's field means. A semicolon is a separator to some.
func unreadable(f field) bool {
	return f.garbled || strings.Contains(f.raw, ";")
}

func writeMultipart(d *digester, in *Input, form string, write func(d *digester, in *Input, part *multipart.Part) error) {
	d.string(form)
	if writeParts(d, in, write) != nil {
		d.start("body")
		d.string(formBytes)
		d.bytes(in.Body)
	}
}

var errNoForm = errors.New("not multipart/form-data")

// writeParts hashes a body's parts, in their order. It leaves out the boundary, which clients make up anew for each
// request.
func writeParts(d *digester, in *Input, write func(d *digester, in *Input, part *multipart.Part) error) error {
	_, params, err := mime.ParseMediaType(in.ContentType)
	if err != nil {
		return err
	}
	if params["boundary"] == "" {
		return errNoForm
	}
	reader := multipart.NewReader(bytes.NewReader(in.Body), params["boundary"])
	for {
		// Raw: a transfer coding is not undone, and its header field is hashed.
		if d.watch.ended() {
			return nil
		}
		part, err := reader.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := write(d, in, part); err != nil {
			return err
		}
	}
}

// writeFormPart hashes a part of a form: the names (the part's own and a file's), the other header fields and the
// content.
func writeFormPart(d *digester, in *Input, part *multipart.Part) error {
	dispositions := part.Header["Content-Disposition"]
	if len(dispositions) != 1 {
		return errNoForm
	}
	disposition, params, err := mime.ParseMediaType(dispositions[0])
	if err != nil {
		return err
	}
	content, err := io.ReadAll(part)
	if err != nil {
		return err
	}
	if slices.Contains(in.OmitFields, params["name"]) {
		return nil
	}
	d.string(disposition)
	d.length(len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		d.string(name)
		d.string(params[name])
	}
	writePartHeader(d, part, "Content-Disposition")
	d.bytes(content)
	return nil
}

// writePart hashes a part's header fields and content.
func writePart(d *digester, _ *Input, part *multipart.Part) error {
	content, err := io.ReadAll(part)
	if err != nil {
		return err
	}
	writePartHeader(d, part, "")
	d.bytes(content)
	return nil
}

// writePartHeader hashes a part's header fields, without the values in one field.
func writePartHeader(d *digester, part *multipart.Part, without string) {
	d.length(len(part.Header))
	for _, name := range slices.Sorted(maps.Keys(part.Header)) {
		d.string(name)
		if name == without {
			continue
		}
		d.length(len(part.Header[name]))
		for _, value := range part.Header[name] {
			d.string(value)
		}
	}
}
