package fingerprint_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/fingerprint"
)

func parse(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

func charge(t testing.TB) fingerprint.Input {
	return fingerprint.Input{
		Method:      "POST",
		URL:         parse(t, "https://api.example.com/v1/charges?expand=a"),
		Account:     http.Header{"Stripe-Account": {"acct_1"}},
		ContentType: "application/json",
		Body:        []byte(`{"amount":1000,"currency":"eur"}`),
	}
}

// A stored fingerprint is compared with fingerprints of later releases. If the output of v1 changed, every request
// that is under way during an upgrade would be refused. A new rule needs a new version.
func TestFingerprintsOfVersion1NeverChange(t *testing.T) {
	form := fingerprint.Input{
		Method:      "POST",
		URL:         parse(t, "https://api.example.com/v1/charges"),
		ContentType: "application/x-www-form-urlencoded",
		Body:        []byte("currency=eur&amount=1000"),
	}
	upload := fingerprint.Input{Method: "POST", URL: parse(t, "https://files.example.com/v1/files")}
	contentType, body := multipartBody(t, "boundary",
		part{`form-data; name="purpose"`, "", "dispute"},
		part{`form-data; name="file"; filename="evidence.pdf"`, "application/pdf", "%PDF-1.7"})
	upload.ContentType, upload.Body = contentType, []byte(body)
	for _, tc := range []struct {
		name string
		in   fingerprint.Input
		want string
	}{
		{"nothing", fingerprint.Input{}, "v1 " +
			"1eJpMfvYrvS99CnlsMVz5_XAYldbd2lGHCbw9XRUkI4 IXdGdRyUj92Gxm2v1RhbYLa8okBQwBqCLl4ij589jFw " +
			"W4jJfjXMetlLpUUUDAhtMkRV039voCB8z4l5i7P83lw U1ntkkDaKnAiohImBGa5RCDxSoE6PDZl7UJCa5QJ_dk"},
		{"JSON", charge(t), "v1 " +
			"nTqMG-WSNGuMQouvun-rFQAde4n6N_4SWZj_ruug9K4 CJ6FLzFpjiXrV3gJHVnIKY9KOgQpWTRpORZL2N086Gk " +
			"mcFOWx87kNCkdtDiBmINrr6Snd8qj60TVUz6rTAFlfc dN_l3-Smi6kiH_pdj224CiR-aDuX_gUwpk0dTaS8LUM"},
		{"a form", form, "v1 " +
			"nTqMG-WSNGuMQouvun-rFQAde4n6N_4SWZj_ruug9K4 ydHwFYZVO3sHYYAlePYIvGise0VG_use0KgWP4Yi3n4 " +
			"W4jJfjXMetlLpUUUDAhtMkRV039voCB8z4l5i7P83lw ggq3H7zSkJadJvKKajzzIXjeGGJSyqAw1Gmn2JY1eIA"},
		{"a multipart form", upload, "v1 " +
			"nTqMG-WSNGuMQouvun-rFQAde4n6N_4SWZj_ruug9K4 c3OqlQtVj4YVSHz7wbX6yt5i3I6JbGKB0U-6i3J249k " +
			"W4jJfjXMetlLpUUUDAhtMkRV039voCB8z4l5i7P83lw QmNltypzyGWIrT-Tnn7Our4esjkDoj63Wml51Mz1L50"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, fingerprint.Of(tc.in))
		})
	}
}

// A fingerprint is a version and a digest of each part.
func TestFingerprintIsAVersionAndDigests(t *testing.T) {
	got := fingerprint.Of(charge(t))
	assert.Regexp(t, regexp.MustCompile(`^v1( [0-9A-Za-z_-]{43}){4}$`), got)
	assert.Len(t, got, 178)
}

func printOf(in fingerprint.Input) *fingerprint.Print {
	p, err := fingerprint.New(context.Background(), in)
	if err != nil {
		panic(err)
	}
	return &p
}

// differ lists the different parts of two requests, in one string.
func differ(t testing.TB, a, b fingerprint.Input) string {
	t.Helper()
	parts, err := printOf(a).Diff(fingerprint.Of(b))
	require.NoError(t, err)
	back, err := printOf(b).Diff(fingerprint.Of(a))
	require.NoError(t, err)
	require.Equal(t, parts, back)
	return strings.Join(parts, " ")
}

func TestDiffNamesThePartsThatDiffer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*fingerprint.Input)
		want   string
	}{
		{"nothing", func(*fingerprint.Input) {}, ""},
		{"the method", func(in *fingerprint.Input) { in.Method = "PUT" }, "method"},
		{"the method's case", func(in *fingerprint.Input) { in.Method = "post" }, "method"},
		{"the URL", func(in *fingerprint.Input) { in.URL = parse(t, "https://api.example.com/v1/refunds") }, "URL"},
		{"no URL", func(in *fingerprint.Input) { in.URL = nil }, "URL"},
		{"the account", func(in *fingerprint.Input) { in.Account = http.Header{"Stripe-Account": {"acct_2"}} }, "account"},
		{"no account", func(in *fingerprint.Input) { in.Account = nil }, "account"},
		{"the body", func(in *fingerprint.Input) { in.Body = []byte(`{"amount":1001,"currency":"eur"}`) }, "body"},
		{"no body", func(in *fingerprint.Input) { in.Body = nil }, "body"},
		{"everything", func(in *fingerprint.Input) { *in = fingerprint.Input{} }, "method URL account body"},
		{"the content type's parameters", func(in *fingerprint.Input) {
			in.ContentType = "Application/JSON; charset=utf-8"
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			other := charge(t)
			tc.change(&other)
			assert.Equal(t, tc.want, differ(t, charge(t), other))
		})
	}
}

func TestNoMethodIsGET(t *testing.T) {
	assert.Equal(t, fingerprint.Of(fingerprint.Input{Method: "GET"}), fingerprint.Of(fingerprint.Input{}))
}

func TestURLsAreComparedAsTheyGoOverTheWire(t *testing.T) {
	const base = "https://api.example.com"
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"the case of scheme and host", "HTTPS://API.Example.com/a", base + "/a", true},
		{"the default port of https", base + ":443/a", base + "/a", true},
		{"the default port of http", "http://h:80/a", "http://h/a", true},
		{"the default port of an IPv6 address", "https://[2001:db8::443]:443/a", "https://[2001:db8::443]/a", true},
		{"an empty path", base, base + "/", true},
		{"userinfo", "https://user@api.example.com/a", base + "/a", true},
		{"a fragment", base + "/a#top", base + "/a", true},
		{"the scheme", "http://api.example.com/a", base + "/a", false},
		{"the host", "https://api.example.org/a", base + "/a", false},
		{"another port", base + ":8443/a", base + "/a", false},
		{"the other scheme's port", base + ":80/a", base + "/a", false},
		{"a host that ends like a port", "https://[2001:db8::443]/a", "https://[2001:db8::]/a", false},
		{"the path's case", base + "/A", base + "/a", false},
		{"an escaped slash", base + "/a%2Fb", base + "/a/b", false},
		{"a slash at the end", base + "/a/", base + "/a", false},

		{"the order of parameters", base + "/?a=1&b=2", base + "/?b=2&a=1", true},
		{"empty parameters", base + "/?a=1&&", base + "/?a=1", true},
		{"an empty query", base + "/?", base + "/", true},
		{"the order of one name's values", base + "/?a=1&a=2", base + "/?a=2&a=1", false},
		{"the order of one name's values, among others", base + "/?a=1&b=3&a=2", base + "/?b=3&a=1&a=2", true},
		{"the order of one list's members", base + "/?i[][a]=1&i[][b]=2&i[][a]=3", base + "/?i[][a]=1&i[][a]=3&i[][b]=2", false},
		{"the order of list and index", base + "/?i[]=1&i[0]=2", base + "/?i[0]=2&i[]=1", false},
		{"the order of a map's members", base + "/?m[a]=1&m[b]=2", base + "/?m[b]=2&m[a]=1", true},
		{"a value", base + "/?a=1", base + "/?a=2", false},
		{"a name", base + "/?a=1", base + "/?b=1", false},
		{"a parameter more", base + "/?a=1&b=", base + "/?a=1", false},
		{"where one parameter ends", base + "/?a=1%26b=2", base + "/?a=1&b=2", false},
		{"path and query", base + "/a?b", base + "/a%3Fb", false},
		{"a bad escape", base + "/?a=%zz", base + "/?a=%zy", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := "URL"
			if tc.same {
				want = ""
			}
			assert.Equal(t, want, differ(t, fingerprint.Input{URL: parse(t, tc.a)}, fingerprint.Input{URL: parse(t, tc.b)}))
		})
	}
}

func TestOmittedQueryParametersDoNotCount(t *testing.T) {
	omit := func(name string) bool { return name == "api_key" || name == "key[id]" }
	of := func(query string) string {
		return fingerprint.Of(fingerprint.Input{
			URL:       &url.URL{Scheme: "https", Host: "h", Path: "/", RawQuery: query},
			OmitQuery: omit,
		})
	}
	want := of("a=1")
	for _, query := range []string{
		"a=1&api_key=1", "api_key=2&a=1", "a=1&api%5Fkey=3", "a=1&api_key", "key%5Bid%5D=1&a=1", "api_key=%zz&a=1",
	} {
		assert.Equal(t, want, of(query), "%q", query)
	}
	assert.Equal(t, of(""), of("api_key=1"))
	assert.NotEqual(t, want, of("a=1&api_keys=1"))
}

// Account headers are compared by name and values.
func TestAccountHeadersAreCompared(t *testing.T) {
	base := http.Header{"A": {"1", "2"}, "B": {"3"}}
	for _, tc := range []struct {
		name  string
		other http.Header
		same  bool
	}{
		{"names in another case", http.Header{"a": {"1", "2"}, "b": {"3"}}, true},
		{"space that net/http doesn't send", http.Header{"A": {" 1", "2\t"}, "B": {"3"}}, true},
		{"a name without a value", http.Header{"A": {"1", "2"}, "B": {"3"}, "C": nil}, true},
		{"the order of values", http.Header{"A": {"2", "1"}, "B": {"3"}}, false},
		{"an empty value", http.Header{"A": {"1", "2"}, "B": {"3"}, "C": {""}}, false},
		{"values at another name", http.Header{"A": {"1"}, "B": {"2", "3"}}, false},
		{"a value's case", http.Header{"A": {"1", "2"}, "B": {"3x"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := "account"
			if tc.same {
				want = ""
			}
			assert.Equal(t, want, differ(t, fingerprint.Input{Account: base}, fingerprint.Input{Account: tc.other}))
		})
	}
}

func TestOfLeavesItsInputAsItWas(t *testing.T) {
	in := charge(t)
	in.URL.RawQuery = "b=1&a=2"
	in.Body = []byte(`{"b":1, "k":2, "a":12.50}`)
	in.OmitFields = []string{"k"}
	fingerprint.Of(in)
	assert.Equal(t, "b=1&a=2", in.URL.RawQuery)
	assert.Equal(t, `{"b":1, "k":2, "a":12.50}`, string(in.Body))
	assert.Equal(t, []string{"k"}, in.OmitFields)
}

// A fingerprint does not depend on others made before or at the same time.
func TestFingerprintDependsOnNoOther(t *testing.T) {
	long := strings.Repeat("l", 1000)
	rows := []struct{ contentType, body, digest string }{
		{"application/json", `{"b":1,"a":{"d":2,"c":3}}`, "qBdbvB1_T8mfJw4_mzjdvVuL5aPRxf9hws3a-31bSko"},
		{"application/json", `{"a":"` + strings.Repeat(long, 100) + `"}`, "hs0Msxp784RXTL2g2JPsTndvYL3X5ZVoKiTyCkbaty4"},
		{"application/json", `{"a":"\u00e9","b":"` + long + `"}`, "rS5XsvKyofbfbpy4zKMzMrsuSPmXb_kP82KQAtW3i9w"},
		{"application/x-www-form-urlencoded", "b=1&a=" + long, "BVWIggF86AKlQ3XTgBpbNSePOTuZSRGsX62MblNSA5o"},
		{"text/plain", long, "0fcmSpO1w_jEJtgZSdjCiCRsH9n-oddN9Fv6kKoNdx0"},
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				for _, row := range rows {
					print := fingerprint.Of(fingerprint.Input{ContentType: row.contentType, Body: []byte(row.body)})
					assert.Equal(t, row.digest, digestOf(print, 4))
				}
			}
		})
	}
	all.Wait()
}

func ExamplePrint_Diff() {
	u := &url.URL{Scheme: "https", Host: "api.example.com", Path: "/v1/charges"}
	first := fingerprint.Input{Method: "POST", URL: u, ContentType: "application/json", Body: []byte(`{"amount": 10, "to": "a"}`)}
	retry, misuse := first, first
	retry.Body = []byte(`{"to":"a","amount":10.0}`)
	misuse.Body = []byte(`{"to":"b","amount":10}`)

	recorded, err := fingerprint.New(context.Background(), first)
	if err != nil {
		panic(err)
	}
	for _, in := range []fingerprint.Input{retry, misuse} {
		asked, err := fingerprint.New(context.Background(), in)
		if err != nil {
			panic(err)
		}
		fmt.Println(asked.Diff(recorded.Fingerprint()))
	}
	// Output:
	// [] <nil>
	// [body] <nil>
}

func TestDiffRefusesIncomparableFingerprints(t *testing.T) {
	good := fingerprint.Of(fingerprint.Input{})
	digest := strings.Fields(good)[1]
	for _, tc := range []struct {
		name, bad string
		want      error
	}{
		{"nothing", "", fingerprint.ErrMalformed},
		{"no version", strings.TrimPrefix(good, "v1 "), fingerprint.ErrMalformed},
		{"a later version", strings.Replace(good, "v1", "v5", 1), fingerprint.ErrVersion},
		{"a salted one without a salt", strings.Replace(good, "v1", "v2", 1), fingerprint.ErrMalformed},
		{"a salted one of a short salt", strings.Replace(good, "v1", "v2 AAAA", 1), fingerprint.ErrMalformed},
		{"a salted one of a salt in another alphabet", strings.Replace(good, "v1", "v2 AAAAAAAAAAAAAAAAAAAA+A", 1), fingerprint.ErrMalformed},
		{"nothing but a salted version", "v2", fingerprint.ErrMalformed},
		{"a later version of another form", "v10 abc", fingerprint.ErrVersion},
		{"no number", strings.Replace(good, "v1", "vx", 1), fingerprint.ErrMalformed},
		{"a part too few", strings.TrimSuffix(good, " "+digestOf(good, 4)), fingerprint.ErrMalformed},
		{"a part too many", good + " " + digest, fingerprint.ErrMalformed},
		{"a digest cut short", good[:len(good)-1], fingerprint.ErrMalformed},
		{"a line break inside", good[:60] + "\n" + good[60:], fingerprint.ErrMalformed},
		{"another alphabet", good[:60] + "+" + good[61:], fingerprint.ErrMalformed},
		{"two spaces", strings.Replace(good, " ", "  ", 1), fingerprint.ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := printOf(fingerprint.Input{}).Diff(tc.bad)
			require.ErrorIs(t, err, tc.want)
			assert.False(t, printOf(fingerprint.Input{}).Same(tc.bad))
		})
	}
}

func digestOf(fingerprint string, part int) string { return strings.Fields(fingerprint)[part] }

func FuzzDiffRefusesEverythingButFingerprints(f *testing.F) {
	good := fingerprint.Of(fingerprint.Input{})
	f.Add(good)
	f.Add("")
	f.Add("v2 x")
	f.Add(fingerprint.Of(fingerprint.Input{Secret: true}))
	f.Add("v1    ")
	f.Add(strings.Replace(good, "v1", "v01", 1))
	form := regexp.MustCompile(`\A(v1|v[24] [0-9A-Za-z_-]{22})( [0-9A-Za-z_-]{43}){4}\z`)
	empty := printOf(fingerprint.Input{})
	f.Fuzz(func(t *testing.T, s string) {
		_, err := empty.Diff(s)
		if err == nil {
			assert.Regexp(t, form, s)
			return
		}
		assert.True(t, err == fingerprint.ErrVersion || err == fingerprint.ErrMalformed || err == fingerprint.ErrKey)
	})
}

// Empty fields of a form take no memory.
func TestEmptyFieldsTakeNoMemory(t *testing.T) {
	body := []byte(strings.Repeat("&", 1<<20) + "a=1")
	allocated := func(body []byte) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		fingerprint.Of(fingerprint.Input{ContentType: "application/x-www-form-urlencoded", Body: body})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	allocated([]byte("a=1"))
	assert.Less(t, allocated(body), uint64(4*len(body)))
}
