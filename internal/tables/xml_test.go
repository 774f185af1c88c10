package tables_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
)

func TestXMLIsReadAsJSON(t *testing.T) {
	const foreign, cut = "another kind", "cut short"
	for _, tc := range []struct {
		name, list, body string
		want, problem    string
	}{
		{"members", "", `<r><a>1</a><b>x y</b></r>`, `{"a":"1","b":"x y"}`, ""},
		{"a declaration, a namespace, attributes and a comment", "", "\ufeff<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- c --><r xmlns=\"urn:x\" a=\"1\"><a b=\"2\">1<!-- c -->2</a></r>\n", `{"a":"12"}`, ""},
		{"characters that JSON escapes", "", "<r><a>&lt;&quot;&#10;\\é<![CDATA[<&]]></a></r>", `{"a":"<\"\n\\é<&"}`, ""},
		{"one item is a list", "l[]", `<r><l><item><id>1</id></item></l></r>`, `{"l":[{"id":"1"}]}`, ""},
		{"two items", "l[]", "<r>\n<l>\n<item>1</item>\n<item/>\n</l>\n</r>", `{"l":["1",null]}`, ""},
		{"no item", "l[]", "<r><l/><m/></r>", `{"l":[],"m":null}`, ""},
		{"white space is no item", "l[]", "<r><l>\n </l></r>", `{"l":[]}`, ""},
		{"lists in lists", "l[].m[]", `<r><l><item><m/><l/></item><item><m><item>1</item></m></item></l></r>`, `{"l":[{"m":[],"l":null},{"m":["1"]}]}`, ""},
		{"a list in a member", "o.l[]", `<r><o><l/></o><l/></r>`, `{"o":{"l":[]},"l":null}`, ""},
		{"a member twice", "l[]", `<r><l/><l/></r>`, `{"l":[],"l":[]}`, ""},
		{"an item behind others", "", `<r><a/><item/></r>`, `{"a":null,"item":null}`, ""},
		{"nothing", "", `<r/>`, `null`, ""},

		{"an empty body", "", ``, "", cut},
		{"no element", "", `<?xml version="1.0"?>`, "", cut},
		{"JSON", "", `{"a":1}`, "", foreign},
		{"cut", "l[]", `<r><l><item>1</item></l>`, "", cut},
		{"cut in a tag", "l[]", `<r><l/></r`, "", cut},
		{"another end", "", `<r><a></b></r>`, "", cut},
		{"an entity", "", `<r>&x;</r>`, "", cut},
		{"a document type", "", `<!DOCTYPE r [<!ENTITY x "y">]><r>&x;</r>`, "", foreign},
		{"a document type within", "", `<r><!DOCTYPE r></r>`, "", foreign},
		{"another encoding", "", `<?xml version="1.0" encoding="ISO-8859-1"?><r/>`, "", cut},
		{"no UTF-8", "", "<r>\xff</r>", "", cut},
		{"two roots", "", `<r/><r/>`, "", foreign},
		{"more behind it", "", `<r/>x`, "", foreign},
		{"text before elements", "", `<r>x<a/></r>`, "", foreign},
		{"text behind elements", "", `<r><a/>x</r>`, "", foreign},
		{"a list with something else", "l[]", `<r><l><item/><other/></l></r>`, "", foreign},
		{"two namespaces", "", `<r xmlns="urn:x"><a xmlns="urn:y"/></r>`, "", foreign},
		{"too deep", "", strings.Repeat("<a>", 300) + strings.Repeat("</a>", 300), "", foreign},
		{"too long", "", `<r>` + strings.Repeat(" ", tables.MaxListBody/4) + `</r>`, "", "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, problem := tables.XMLAsJSON(nil, []byte(tc.body), tc.list)
			assert.Equal(t, tc.want, string(text))
			assert.Contains(t, problem, tc.problem)
			assert.Equal(t, tc.problem == "", problem == "", problem)
		})
	}
	for media, is := range map[string]bool{
		"text/xml;charset=UTF-8": true, "application/xml": true, "application/soap+xml": true, "": true,
		"text/html": false, "application/json": false, "text/xml;charset=latin1": false, "text/xml;": true, "/": false,
	} {
		header := http.Header{}
		if media != "" {
			header.Set("Content-Type", media)
		}
		_, problem := tables.XMLAsJSON(header, []byte("<r/>"), "")
		assert.Equal(t, is, problem == "", media)
	}
	_, problem := tables.XMLAsJSON(http.Header{"Content-Type": {"text/xml", "text/html"}}, []byte("<r/>"), "")
	assert.NotEmpty(t, problem)
}

// Any page is refused or becomes valid JSON, at most four times as long as the page.
func FuzzXMLAsJSON(f *testing.F) {
	f.Add(`<r><l><item><id>1</id></item></l><next>a</next></r>`, "l[]")
	f.Add(`<?xml version="1.0"?><r xmlns="u"><o><l/></o><a>&lt;&#xA;</a></r>`, "o.l[]")
	f.Add(`<r>x<!-- --><![CDATA[y]]></r>`, "")
	f.Fuzz(func(t *testing.T, body, path string) {
		text, problem := tables.XMLAsJSON(nil, []byte(body), path)
		if problem != "" {
			assert.Nil(t, text)
			return
		}
		assert.True(t, json.Valid(text), "%s", text)
		assert.LessOrEqual(t, len(text), 4*len(body))
		tables.Items(nil, text, path)
		tables.Member(text, path)
	})
}
