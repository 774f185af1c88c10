package providertest

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzFirstFieldIsANameOfTheDocument(f *testing.F) {
	for document, want := range map[string]string{
		`mutation { refundCreate(input: {}) { id } }`:                        "refundCreate",
		`mutation m($x: I = {a: "}"}) @d(a: "{") { a: refundCreate { id } }`: "a",
		"query # {no\n{ shop { name } }":                                     "shop",
		`{}`:                                                                 "",
		`{ a`:                                                                "",
		`"unterminated \`:                                                    "",
		`mutation ($a: String = "\"{") { _b1 }`:                              "_b1",
		``:                                                                   "",
	} {
		if got := firstField(document); got != want {
			f.Errorf("%s: got %q, not %q", document, got, want)
		}
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		name := firstField(document)
		if !strings.Contains(document, name) || strings.ContainsAny(name, " {}()\"#\n") {
			t.Errorf("%q is no name of %q", name, document)
		}
	})
}

func FuzzATextIsPutIntoAnyJSON(f *testing.F) {
	f.Add(`{"error":{"type":"a"}}`, "error.code")
	f.Add(`{"errors":[{"code":1}]}`, "errors[].code")
	f.Add(`{"errors":[]}`, "errors[]")
	f.Add(`[]`, "data.*.userErrors[].code")
	f.Add(`null`, "a.b")
	f.Fuzz(func(t *testing.T, body, path string) {
		c := &call{}
		a := c.with(Answer{Status: 400, Header: map[string][]string{}, Body: []byte(body)}, path, "the text")
		if !json.Valid(a.Body) || !strings.Contains(string(a.Body), `"the text"`) {
			t.Errorf("%s is not what it should be", a.Body)
		}
	})
}
