package tables_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

const ours = "0190a3b2-1111-8222-8333-444455556666"

func TestReferenceIsReadAndFilledIn(t *testing.T) {
	inForm := providers.Reference{Place: providers.KeyFormField, Name: "metadata[onceward]", MaxLength: 40, MaxPairs: 2}
	inJSON := providers.Reference{Place: providers.KeyJSONField, Name: "a.metadata.onceward", MaxPairs: 2}
	onTop := providers.Reference{Place: providers.KeyJSONField, Name: "reference_id"}
	inQuery := providers.Reference{Place: providers.KeyQuery, Name: "ref"}
	inHeader := providers.Reference{Place: providers.KeyRawHeader, Name: "X-Reference"}
	inVariable := providers.Reference{Place: providers.KeyGraphQL, Name: "input.orderId"}
	parts := tables.Message{Header: http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, Body: []byte("--x--")}
	visible := onTop
	visible.Visible = true
	short := onTop
	short.MaxLength = 35

	for _, tc := range []struct {
		name    string
		in      providers.Reference
		message tables.Message
		carried string
		present bool
		unread  bool   // Carried fails
		filled  string // query or body; "": it is refused
	}{
		{"a form", inForm, formBody("amount=1"), "", false, false, "amount=1&metadata%5Bonceward%5D=" + ours},
		{"a form that has it", inForm, formBody("metadata[onceward]=order+1%2F%C3%A9"), "order 1/é", true, false, ""},
		{"a form that has it, empty", inForm, formBody("metadata[onceward]="), "", true, false, ""},
		{"a form that has it twice", inForm, formBody("metadata[onceward]=a&metadata%5bonceward]=a"), "", true, true, ""},
		{"a form with others beside it", inForm, formBody("metadata[a]=1&metadata%5Ba%5D=2"), "", false, false, "metadata[a]=1&metadata%5Ba%5D=2&metadata%5Bonceward%5D=" + ours},
		{"a form with no room", inForm, formBody("metadata[a]=1&metadata[b]=2"), "", false, false, ""},
		{"a form that clears the object", inForm, formBody("metadata="), "", false, false, ""},
		{"no form", inForm, jsonBody(`{}`), "", false, true, ""},
		{"JSON", onTop, jsonBody(`{ "a": 1.0 }`), "", false, false, `{"reference_id":"` + ours + `", "a": 1.0 }`},
		{"JSON that has it", onTop, jsonBody(`{"reference_id": "invoice \u0031"}`), "invoice 1", true, false, ""},
		{"JSON that has a number", onTop, jsonBody(`{"reference_id": 1}`), "", false, true, ""},
		{"JSON that has null", onTop, jsonBody(`{"reference_id": null}`), "", false, true, ""},
		{"JSON without the objects", inJSON, jsonBody(`{"b":1}`), "", false, false, `{"a":{"metadata":{"onceward":"` + ours + `"}},"b":1}`},
		{"JSON without the last", inJSON, jsonBody(`{"a":{"b":1}}`), "", false, false, `{"a":{"metadata":{"onceward":"` + ours + `"},"b":1}}`},
		{"JSON with the object", inJSON, jsonBody(`{"a":{"metadata":{"b":"1"}}}`), "", false, false, `{"a":{"metadata":{"onceward":"` + ours + `","b":"1"}}}`},
		{"JSON with no room", inJSON, jsonBody(`{"a":{"metadata":{"b":{"c":[1]},"d":""}}}`), "", false, false, ""},
		{"JSON with null for the object", inJSON, jsonBody(`{"a":{"metadata":null}}`), "", false, false, ""},
		{"JSON with a text for the object", inJSON, jsonBody(`{"a":""}`), "", false, false, ""},
		{"JSON with two objects", inJSON, jsonBody(`{"a":{},"\u0061":{}}`), "", false, true, ""},
		{"no JSON", onTop, jsonBody(`{"a"`), "", false, true, ""},
		{"JSON that says that it is a form", onTop, formBody(`{}`), "", false, true, ""},
		{"JSON that is compressed", onTop, tables.Message{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: []byte("{}")}, "", false, true, ""},
		{"a query", inQuery, query("a=1"), "", false, false, "a=1&ref=" + ours},
		{"a query that has it", inQuery, query("ref=1&a"), "1", true, false, ""},
		{"a query of a body of parts", inQuery, tables.Message{Header: parts.Header, Query: "a=1", Body: parts.Body}, "", false, false, ""},
		{"parts", inForm, parts, "", false, true, ""},
		{"a variable", inVariable, jsonBody(`{"query":"mutation($i:I){a(input:$i){id}}","variables":{"i":{}}}`), "", false, false,
			`{"query":"mutation($i:I){a(input:$i){id}}","variables":{"i":{"orderId":"` + ours + `"}}}`},
		{"a variable that has it", inVariable, jsonBody(`{"query":"mutation($i:I){a(input:$i){id}}","variables":{"i":{"orderId":"7"}}}`), "7", true, false, ""},
		{"a field that payers see", visible, jsonBody(`{"a":1}`), "", false, false, ""},
		{"a reference that is too long", short, jsonBody(`{"a":1}`), "", false, false, ""},
		{"nowhere", providers.Reference{}, jsonBody(`{"a":1}`), "", false, false, ""},
		{"a header that has it", inHeader, tables.Message{Header: http.Header{"x-reference": {" a "}}}, "a", true, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.message.Query + string(tc.message.Body)
			reference, present, err := tables.Reference(tc.in).Carried(tc.message)
			assert.Equal(t, tc.unread, err != nil, "%v", err)
			assert.Equal(t, tc.present, present)
			assert.Equal(t, tc.carried, reference)

			err = tables.Reference(tc.in).Set(&tc.message, ours)
			after := tc.message.Query + string(tc.message.Body)
			if tc.filled == "" {
				var refused *tables.KeyError
				require.ErrorAs(t, err, &refused)
				assert.NotContains(t, err.Error(), ours)
				assert.Equal(t, before, after)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.filled, after)
			reference, present, err = tables.Reference(tc.in).Carried(tc.message)
			require.NoError(t, err)
			assert.True(t, present)
			assert.Equal(t, ours, reference)
		})
	}
}

func TestReferenceIsFilledIntoAHeader(t *testing.T) {
	m := tables.Message{}
	require.NoError(t, tables.Reference{Place: providers.KeyRawHeader, Name: "X-Reference"}.Set(&m, ours))
	assert.Equal(t, ours, m.Header.Get("X-Reference"))
}

// A reference that is filled in occurs once in the body. A body that can't take it stays as it was.
func FuzzReference(f *testing.F) {
	f.Add(`{"metadata":{"a":"b"}}`)
	f.Add(`{"metadata":null,"a":[{}]}`)
	f.Add(`metadata[a]=b&c`)
	f.Fuzz(func(t *testing.T, body string) {
		inJSON := tables.Reference{Place: providers.KeyJSONField, Name: "metadata.onceward"}
		m := jsonBody(body)
		if inJSON.Set(&m, ours) == nil {
			got, present, err := inJSON.Carried(m)
			require.NoError(t, err)
			assert.True(t, present)
			assert.Equal(t, ours, got)
			assert.Equal(t, 1, strings.Count(string(m.Body), ours))
			assert.Error(t, inJSON.Set(&m, ours))
		} else {
			assert.Equal(t, body, string(m.Body))
		}
		inForm := tables.Reference{Place: providers.KeyFormField, Name: "metadata[onceward]"}
		m = formBody(body)
		if inForm.Set(&m, ours) == nil {
			got, _, err := inForm.Carried(m)
			require.NoError(t, err)
			assert.Equal(t, ours, got)
			assert.True(t, strings.HasPrefix(string(m.Body), body))
		}
	})
}
