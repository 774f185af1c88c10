package fingerprint_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/fingerprint"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

func ofBody(contentType, body string, omit ...string) string {
	return fingerprint.Of(fingerprint.Input{ContentType: contentType, Body: []byte(body), OmitFields: omit})
}

// An empty body is the same under every type and coding.
func TestEmptyBodyIsTheSame(t *testing.T) {
	want := fingerprint.Of(fingerprint.Input{})
	for _, contentType := range []string{"", jsonType, formType, "multipart/form-data; boundary=b", "text/plain"} {
		for _, coding := range []string{"", "gzip"} {
			in := fingerprint.Input{ContentType: contentType, ContentEncoding: coding, Body: []byte{}}
			assert.Equal(t, want, fingerprint.Of(in), "%q %q", contentType, coding)
		}
	}
}

// Bodies of other types are compared by their bytes.
func TestBodiesOfOtherTypes(t *testing.T) {
	for _, contentType := range []string{"", "text/plain", "application/xml", "application/jsonl", ";", "application/json+x"} {
		assert.NotEqual(t, ofBody(contentType, `{"a":1,"b":2}`), ofBody(contentType, `{"b":2,"a":1}`), "%q", contentType)
		assert.Equal(t, ofBody(contentType, `{"a":1}`), ofBody(contentType, `{"a":1}`), "%q", contentType)
	}
}

// A canonical body never meets another form's bytes.
func TestCanonicalBodyMeetsNoOther(t *testing.T) {
	canonical := `{"a":1}`
	assert.NotEqual(t, ofBody(jsonType, canonical), ofBody("text/plain", canonical))
	assert.NotEqual(t, ofBody(formType, "a=1"), ofBody("text/plain", "a=1"))
}

func TestEncodedBodiesAreComparedByTheirBytes(t *testing.T) {
	of := func(coding, body string) string {
		return fingerprint.Of(fingerprint.Input{ContentType: jsonType, ContentEncoding: coding, Body: []byte(body)})
	}
	const a, b = `{"a":1,"b":2}`, `{"b":2,"a":1}`
	assert.NotEqual(t, of("gzip", a), of("gzip", b))
	assert.NotEqual(t, of("gzip", a), of("br", a))
	assert.NotEqual(t, of("gzip", a), of("", a))
	assert.Equal(t, of("GZIP ", a), of("gzip", a))
	assert.Equal(t, of("identity", a), of("", b))
}

// Forms are compared without regard to the order of their fields.
func TestFormsAreComparedWithoutOrder(t *testing.T) {
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"order", "a=1&b=2", "b=2&a=1", true},
		{"encoding", "a=%7e+x", "a=~%20x", true},
		{"a name's encoding", "m%5Ba%5D=1&b=2", "b=2&m[a]=1", true},
		{"no value and an empty one", "a", "a=", true},
		{"empty fields", "a=1&&", "a=1", true},
		{"the order of one name's values", "a=1&b=3&a=2", "a=2&b=3&a=1", false},
		{"the order of one list's members", "i[][a]=1&i[][b]=2&i[][a]=3&i[][b]=4", "i[][a]=1&i[][a]=3&i[][b]=2&i[][b]=4", false},
		{"the order of fields around a list", "x=1&i[][a]=1&i[][b]=2", "i[][a]=1&x=1&i[][b]=2", true},
		{"the order of a map's members", "m[a]=1&m[b]=2", "m[b]=2&m[a]=1", true},
		{"a value", "a=1", "a=2", false},
		{"a name", "a=1", "b=1", false},
		{"where a value ends", "a=1%26b=2", "a=1&b=2", false},
		{"an escaped equals sign", "a%3D1=2", "a=1=2", false},
		{"bytes that are no text", "a=%ff", "a=%fe", false},
		{"a semicolon, by its bytes", "a=1;b=2&c=3", "c=3&a=1;b=2", false},
		{"an escaped semicolon", "a=1%3Bb&c=3", "c=3&a=1%3bb", true},
		{"a bad escape, by its bytes", "a=%zz&b=1", "b=1&a=%zz", false},
		{"the same bad escape", "a=%zz&b=1", "a=%zz&b=1", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, contentType := range []string{formType, "Application/X-WWW-Form-URLEncoded; charset=utf-8"} {
				assert.Equal(t, tc.same, ofBody(formType, tc.a) == ofBody(contentType, tc.b), contentType)
			}
		})
	}
}

func TestOmittedFormFieldsDoNotCount(t *testing.T) {
	omit := []string{"key", "m[sent]"}
	want := ofBody(formType, "a=1&b=2")
	for _, body := range []string{"a=1&b=2&key=x", "key=1&key=2&b=2&a=1", "a=1&m%5Bsent%5D=1&b=2", "a=1&b=2&key=%zz;"} {
		assert.Equal(t, want, ofBody(formType, body, omit...), "%q", body)
	}
	assert.Equal(t, ofBody(formType, "a=1;2"), ofBody(formType, "key=x&a=1;2", omit...), "in a form compared by its bytes")
	assert.Equal(t, ofBody(formType, ""), ofBody(formType, "key=x", omit...))
	assert.NotEqual(t, want, ofBody(formType, "a=1&b=2&keys=x", omit...))
}

type part struct{ disposition, contentType, content string }

func multipartBody(t testing.TB, boundary string, parts ...part) (contentType, body string) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	require.NoError(t, w.SetBoundary(boundary))
	for _, p := range parts {
		header := map[string][]string{"Content-Disposition": {p.disposition}}
		if p.contentType != "" {
			header["Content-Type"] = []string{p.contentType}
		}
		out, err := w.CreatePart(header)
		require.NoError(t, err)
		_, err = out.Write([]byte(p.content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return w.FormDataContentType(), buf.String()
}

// Multipart forms are compared by their parts.
func TestMultipartFormsByTheirParts(t *testing.T) {
	purpose := part{`form-data; name="purpose"`, "", "dispute"}
	file := part{`form-data; name="file"; filename="a.pdf"`, "application/pdf", "%PDF\r\n--b"}
	change := func(p part, f func(*part)) part { f(&p); return p }
	of := func(boundary string, parts ...part) string { return ofBody(multipartBody(t, boundary, parts...)) }
	want := of("one", purpose, file)
	for _, tc := range []struct {
		name  string
		parts []part
		same  bool
	}{
		{"another boundary", []part{purpose, file}, true},
		{"other quoting", []part{change(purpose, func(p *part) { p.disposition = "form-data; name=purpose" }), file}, true},
		{"another order", []part{file, purpose}, false},
		{"a part less", []part{purpose}, false},
		{"a part more", []part{purpose, file, file}, false},
		{"other content", []part{change(purpose, func(p *part) { p.content = "Dispute" }), file}, false},
		{"another name", []part{change(purpose, func(p *part) { p.disposition = `form-data; name="p"` }), file}, false},
		{"another file name", []part{purpose, change(file, func(p *part) {
			p.disposition = `form-data; name="file"; filename="b.pdf"`
		})}, false},
		{"another folder", []part{purpose, change(file, func(p *part) {
			p.disposition = `form-data; name="file"; filename="x/a.pdf"`
		})}, false},
		{"another type", []part{purpose, change(file, func(p *part) { p.contentType = "text/plain" })}, false},
		{"no type", []part{purpose, change(file, func(p *part) { p.contentType = "" })}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.same, want == of("two", tc.parts...))
		})
	}
}

// Bodies of other multipart types are compared by their parts, too. Their boundary is made up anew for each request.
func TestMultipartBodiesOfOtherTypesByTheirParts(t *testing.T) {
	of := func(media, boundary string, parts ...string) string {
		body := "--" + boundary + "\r\n" + strings.Join(parts, "\r\n--"+boundary+"\r\n") + "\r\n--" + boundary + "--\r\n"
		return ofBody(media+"; boundary="+boundary, body)
	}
	const (
		metadata = "Content-Type: application/json; charset=UTF-8\r\n\r\n{\"name\":\"a.pdf\"}"
		file     = "Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\nJVBERg=="
	)
	for _, media := range []string{"multipart/related", "multipart/mixed", "Multipart/Related; type=\"application/json\""} {
		want := of(media, "one", metadata, file)
		assert.Equal(t, want, of(media, "two-8f14e45f", metadata, file), media)
		assert.Equal(t, want, of(media, "two", metadata, "content-transfer-encoding:base64\r\nContent-type: application/pdf\r\n\r\nJVBERg=="), "the order and case of header fields")
		for name, parts := range map[string][]string{
			"another order":           {file, metadata},
			"a part less":             {metadata},
			"a part more":             {metadata, file, file},
			"other content":           {metadata, file + "="},
			"another type":            {metadata, strings.Replace(file, "pdf", "png", 1)},
			"another header field":    {metadata, "Content-Id: <1>\r\n" + file},
			"a header field less":     {metadata, strings.Replace(file, "Content-Transfer-Encoding: base64\r\n", "", 1)},
			"a header field twice":    {metadata, "Content-Type: application/pdf\r\n" + file},
			"the parts in one":        {metadata + file},
			"a part with a boundary":  {metadata, file + "\r\n--one"},
			"what moved between them": {metadata + "\r\n" + file, ""},
		} {
			assert.NotEqual(t, want, of(media, "one-2", parts...), "%s: %s", media, name)
		}
		cut := strings.Replace(metadata, "\r\n\r\n", "", 1)
		assert.NotEqual(t, of(media, "one", cut), of(media, "two", cut), "one that can't be read is compared by its bytes")
	}
	assert.NotEqual(t, of("multipart/related", "one", "Content-Disposition: form-data; name=a\r\n\r\n1"), of("multipart/form-data", "one", "Content-Disposition: form-data; name=a\r\n\r\n1"))
}

func TestOmittedPartsDoNotCount(t *testing.T) {
	a := part{`form-data; name="a"`, "", "1"}
	key := part{`form-data; name="key"`, "", "k"}
	contentType, body := multipartBody(t, "one", a)
	withKey, keyed := multipartBody(t, "two", key, a, key)
	assert.Equal(t, ofBody(contentType, body, "key"), ofBody(withKey, keyed, "key"))
	assert.NotEqual(t, ofBody(contentType, body), ofBody(withKey, keyed))
}

// Multipart forms that cannot be read are compared by their bytes.
func TestMultipartFormsThatCannotBeRead(t *testing.T) {
	contentType, body := multipartBody(t, "one", part{`form-data; name="a"`, "", "1"})
	for _, tc := range []struct{ name, contentType, body string }{
		{"no boundary", "multipart/form-data", body},
		{"an empty boundary", `multipart/form-data; boundary=""`, body},
		{"a bad parameter", "multipart/form-data; boundary", body},
		{"another boundary", "multipart/form-data; boundary=two", body},
		{"cut short", contentType, body[:len(body)-12]},
		{"a part without a disposition", contentType, strings.Replace(body, "Content-Disposition", "X-Disposition", 1)},
		{"a disposition that can't be read", contentType, strings.Replace(body, `name="a"`, `name="a`, 1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, ofBody("text/plain", tc.body), ofBody(tc.contentType, tc.body))
		})
	}
}

// fieldsOf reads a form as net/url does: the values of each name, in their order.
func fieldsOf(body string) (url.Values, bool) {
	values, err := url.ParseQuery(body)
	return values, err == nil
}

func FuzzFormsOfOneFingerprintMeanTheSame(f *testing.F) {
	f.Add("a=1&b=2", "b=2&a=1")
	f.Add("a=1&a=2", "a=2&a=1")
	f.Add("a=%31&b=+", "b=%20&a=1")
	f.Add("a", "a=")
	f.Add("a;b=1", "a=;b=1")
	f.Add("a=%zz", "a=%25zz")
	f.Add("i[][x]=1&i[][y]=2", "i[][y]=2&i[][x]=1")
	f.Add("", "&&")
	f.Fuzz(func(t *testing.T, a, b string) {
		fields := strings.Split(a, "&")
		turned := strings.Join(append(fields[1:], fields[0]), "&")
		for _, b := range []string{b, turned, strings.ReplaceAll(a, "+", "%20"), a + "="} {
			if ofBody(formType, a) != ofBody(formType, b) {
				continue
			}
			meansA, okA := fieldsOf(a)
			meansB, okB := fieldsOf(b)
			if okA != okB || okA && !assert.ObjectsAreEqual(meansA, meansB) {
				t.Fatalf("%q and %q have one fingerprint", a, b)
			}
		}
	})
}

// Forms in another order of names have one fingerprint.
func FuzzFormsInAnotherOrder(f *testing.F) {
	f.Add("a", "1", "b", "2")
	f.Add("é", "&=+", " ", "%")
	f.Fuzz(func(t *testing.T, a, x, b, y string) {
		if a == b || strings.ContainsAny(a+b, "[") {
			return // the order of these counts
		}
		one, other := url.QueryEscape(a)+"="+url.QueryEscape(x), url.QueryEscape(b)+"="+url.QueryEscape(y)
		if ofBody(formType, one+"&"+other) != ofBody(formType, other+"&"+one) {
			t.Fatalf("%s and %s", one, other)
		}
	})
}

// Multipart forms of one fingerprint mean the same.
func FuzzMultipartForms(f *testing.F) {
	part := func(name, text string) string {
		return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n"
	}
	f.Add(part("a", "1")+part("b", "2")+"--x--", part("b", "2")+part("a", "1")+"--x--")
	f.Add(part("a", "1")+"--x--\r\n", part("a", "1")+"--x--")
	f.Add(part("a", "--x"), part("a", "1"))
	f.Add("preamble\r\n"+part("a", "1")+"--x--epilogue", part("a", "1")+"--x--")
	f.Fuzz(func(t *testing.T, a, b string) {
		alike := func(media string) bool { return ofBody(media+"; boundary=x", a) == ofBody(media+"; boundary=x", b) }
		if a == "" || b == "" || !alike("multipart/form-data") && !alike("multipart/related") {
			return
		}
		partsA, errA := partsOf(a)
		partsB, errB := partsOf(b)
		if (errA == nil) != (errB == nil) || errA == nil && !assert.ObjectsAreEqual(partsA, partsB) {
			t.Fatalf("%q and %q have one fingerprint", a, b)
		}
	})
}

// partsOf reads a form as mime/multipart does.
func partsOf(body string) (parts []string, err error) {
	r := multipart.NewReader(strings.NewReader(body), "x")
	for {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part.FormName(), part.FileName(), part.Header.Get("Content-Type"), string(text))
	}
}

func TestAWSJSONIsComparedAsJSON(t *testing.T) {
	const awsType = "application/x-amz-json-1.1"
	assert.Equal(t, ofBody(awsType, `{"a":1,"b":2}`), ofBody(awsType, `{ "b":2, "a":1.0 }`))
	assert.NotEqual(t, ofBody(awsType, `{"a":1}`), ofBody(awsType, `{"a":2}`))
}
