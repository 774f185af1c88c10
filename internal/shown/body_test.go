package shown_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/shown"
)

const card = "4242424242424242"

func TestShapeHasNoValue(t *testing.T) {
	fields, whole := shown.Shape("application/json", []byte(`{"amount":2000,"items":[{"id":"it_1"},{"id":"it_2"}],"live":true,"none":null,"`+card+`":"x"}`))
	assert.True(t, whole)
	var lines []string
	for _, f := range fields {
		lines = append(lines, f.String())
	}
	assert.Equal(t, []string{"(whole): object, 5", shown.Mask + ": text, 1", "amount: number", "items: list, 2", "items[]: object, 1", "items[].id: text, 4",
		"live: boolean", "none: null"}, lines)
	fields, whole = shown.Shape("application/x-www-form-urlencoded", []byte("amount=2000&card%5Bcvc%5D=123"))
	assert.True(t, whole)
	assert.Equal(t, []shown.Field{{Path: "amount", Type: "text", Size: 4}, {Path: "card[cvc]", Type: "text", Size: 3}}, fields)
	_, whole = shown.Shape("text/xml", []byte("<a/>"))
	assert.False(t, whole)
	_, whole = shown.Shape("application/json", []byte(strings.Repeat("[", 100)+strings.Repeat("]", 100)))
	assert.False(t, whole, "nesting is bounded")
}

// A secret is masked at every depth and in every form of body. Other values are shown.
func TestMasked(t *testing.T) {
	for name, row := range map[string]struct{ contentType, body string }{
		"by name, deep":          {"application/json", `{"open":"seen","a":{"b":[{"api_key":"hidden-1"}]},"cvc":"hidden-2","x":{"security_code":937}}`},
		"a secret object":        {"application/json", `{"open":"seen","credentials":{"user":"hidden","pass":"hidden"}}`},
		"by its look":            {"application/json", `{"open":"seen","note":"use sk_live_hidden1234567890 please"}`},
		"a card":                 {"application/json", `{"open":"seen","memo":"4242 4242 4242 4242","n":` + card + `,"more":"4242-4242-4242-4242 12/30"}`},
		"a form":                 {"application/x-www-form-urlencoded", "open=seen&card[number]=" + card + "&card[cvc]=937&client_secret=hidden&n=4242+4242+4242+4242"},
		"XML":                    {"text/xml", "<r><open>seen</open><CardSecurityCode>937</CardSecurityCode><Password a='b'>hidden</Password><n>" + card + "</n></r>"},
		"text":                   {"text/plain", "seen\nAuthorization: Bearer hidden1234567890=\n" + card},
		"JSON without a type":    {"", `{"open":"seen","token":"hidden"}`},
		"broken JSON":            {"application/json", `{"open":"seen","cvc":"937","token":"hidden1234567890"`},
		"lines of JSON":          {"application/x-ndjson", "{\"open\":\"seen\"}\n{\"cvv2\":937}"},
		"a byte order mark":      {"application/json", "\ufeff" + `{"open":"seen","cvc":{"a":"937"}}`},
		"JSON within JSON":       {"application/json", `{"open":"seen","payload":"{\"card\":{\"cvc\":\"937\",\"more\":\"{\\\"cvv\\\":937}\"}}"}`},
		"JSON within a form":     {"application/x-www-form-urlencoded", `open=seen&data=%7B%22cvc%22%3A%22937%22%7D&more=card%255Bcvc%255D%3D937;cvc=937`},
		"GraphQL":                {"application/json", `{"open":"seen","query":"mutation { pay(cvc: \"937\", securityCode: 937) }"}`},
		"a pair":                 {"application/json", `{"open":"seen","fields":[{"name":"cvc","value":"937"},{"key":"client_secret","value":"hidden"}]}`},
		"a pair of another kind": {"application/json", `{"open":"seen","fields":[{"name":"cvc","content":"937"},{"name":"card[cvv]","data":"937"}]}`},
		"escaped twice":          {"text/plain", `seen {\\\"cvc\\\":\\\"937\\\",\\\"password\\\":\\\"hidden\\\"}`},
		"columns":                {"text/csv", "id,card_cvc,note\nseen,937,a\nb,937,c"},
		"columns by semicolons":  {"text/csv", "id;\"password\"\r\nseen;hidden\r\n"},
		"entities":               {"text/xml", "<r><open>seen</open><n>&#52;24242424242424&#x32;</n></r>"},
		"a RuPay card":           {"text/plain", "seen 8174 5000 0000 0006"},
		"longer names":           {"application/json", `{"open":"seen","cvc_code":"937","cardVerificationCode":"937","cvv-number":937}`},
		"other groups":           {"application/json", `{"open":"seen","a":"4242.4242.4242.4242","b":"4242\u00a04242\u00a04242\u00a04242","d":"4242/4242/4242/4242"}`},
		"XML of more kinds": {"text/xml", `<r><open>seen</open><c cvc="937"/><cvc><![CDATA[937]]></cvc><x:cvc a="/">937</x:cvc><cvv><!-- a -->937</cvv>` +
			`<password/><credentials><user>hidden</user></credentials></r>`},
		"XML that is cut off": {"text/xml", `<r><open>seen</open><cvc>937`},
		"a form of parts": {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"open\"\r\n\r\nseen\r\n" +
			"--x\r\nContent-Disposition: form-data; name=\"card[cvc]\"\r\nContent-Type: text/plain\r\n\r\n937\r\n" +
			"--x\r\nContent-Disposition: form-data; name=client_secret\r\n\r\nhidden\r\n--x--"},
	} {
		t.Run(name, func(t *testing.T) {
			got := shown.Masked(row.contentType, []byte(row.body))
			assert.Contains(t, got, "seen")
			for _, secret := range []string{"hidden", "937", card, "4242 4242", "4242-4242", "4242.4242", "4242/4242", "a04242"} {
				assert.NotContains(t, got, secret)
			}
		})
	}
	assert.Equal(t, "(empty)", shown.Masked("", nil))
	assert.Equal(t, "(2 bytes that are no text)", shown.Masked("", []byte{0xff, 0xfe}))
	assert.NotContains(t, shown.Masked("text/plain", []byte("a\x1bb\u202e")), "\x1b")
	assert.Contains(t, shown.Masked("application/json", []byte(`{"big":9007199254740993}`)), "9007199254740993", "numbers keep their digits")
}

// A long body costs little to show, since a stranger may choose its content.
func TestALongBodyIsShownByItsBeginning(t *testing.T) {
	body := []byte(`{"open":"seen","cvc":"937","n":[` + strings.Repeat("0,", 4<<20) + "0]}")
	got := shown.Masked("application/json", body)
	assert.Contains(t, got, "seen")
	assert.NotContains(t, got, "937")
	assert.Less(t, len(got), 80<<10)
	_, whole := shown.Shape("application/json", body)
	assert.False(t, whole)
	var m [2]runtime.MemStats
	runtime.ReadMemStats(&m[0])
	shown.Masked("application/json", body)
	runtime.ReadMemStats(&m[1])
	assert.Less(t, m[1].TotalAlloc-m[0].TotalAlloc, uint64(len(body)), "it is not decoded")
}
