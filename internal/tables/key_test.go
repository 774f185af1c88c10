package tables_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

var (
	raw    = providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key", MaxLength: 36}
	quoted = providers.Key{Place: providers.KeyQuotedHeader, Name: "Idempotency-Key", MaxLength: 36}
)

const uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324"

// Check refuses keys that the endpoint does not take.
func TestKeyCheckRefuses(t *testing.T) {
	digits := providers.Key{Place: providers.KeyRawHeader, Name: "X-Key", MinLength: 4, MaxLength: 6, Alphabet: "0123456789 "}
	fourth := providers.Key{Place: providers.KeyRawHeader, Name: "X-Key", UUIDVersion: 4}
	for _, tc := range []struct {
		name   string
		key    providers.Key
		value  string
		reason string // empty: taken
	}{
		{"a UUID of the version", fourth, uuid, ""},
		{"a UUID of the version in upper case", fourth, strings.ToUpper(uuid), ""},
		{"a UUID of another version", fourth, "72a68032-74fc-852a-9dd0-295bbd2287f3", "not a UUID of version 4"},
		{"a UUID of another variant", fourth, "8e03978e-40d5-43e8-cc93-6894a57f9324", "not a UUID of version 4"},
		{"a UUID without hyphens", fourth, strings.ReplaceAll(uuid, "-", ""), "not a UUID of version 4"},
		{"a UUID with hyphens elsewhere", fourth, "8e0397-8e40d5-43e8-bc93-6894a57f9324", "not a UUID of version 4"},
		{"a UUID in braces", fourth, "{" + uuid + "}", "not a UUID of version 4"},
		{"a name in place of a UUID", fourth, "order-991", "not a UUID of version 4"},
		{"empty in place of a UUID", fourth, "", "empty"},
		{"a UUID", raw, uuid, ""},
		{"a UUID, quoted on the wire", quoted, uuid, ""},
		{"empty", raw, "", "empty"},
		{"too long", raw, uuid + "0", "37 characters, more than 36"},
		{"too short", digits, "123", "3 characters, fewer than 4"},
		{"at both ends of the alphabet's length", digits, "1234", ""},
		{"outside the alphabet", digits, "12a4", "character 3"},
		{"a space that the alphabet has", digits, "12 4", ""},
		{"a space at the end all the same", digits, "123 ", "white space"},
		{"a space", raw, "a b", "character 2"},
		{"a line break", raw, "a\r\nX: y", "character 2"},
		{"not ASCII", raw, "schlüssel", "character 5"},
		{"in quotes, in a raw header", raw, `"abc"`, "double quotes"},
		{"in quotes that are meant, in a quoted header", quoted, `"abc"`, ""},
		{"one quote", raw, `"abc`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tables.Key(tc.key).Check(tc.value)
			if tc.reason == "" {
				assert.NoError(t, err)
				return
			}
			var invalid *tables.KeyError
			require.ErrorAs(t, err, &invalid)
			assert.Contains(t, invalid.Reason, tc.reason)
			assert.Equal(t, tc.key.Name, invalid.Name)
			if len(tc.value) > 3 {
				assert.NotContains(t, err.Error(), tc.value)
			}
		})
	}
}

func TestSetReplacesAKeyInAnySpelling(t *testing.T) {
	h := http.Header{"Idempotency-Key": {"a", "b"}, "idempotency-key": {"c"}, "Accept": {"*/*"}}
	require.NoError(t, tables.Key(raw).Set(&tables.Message{Header: h}, uuid, time.Time{}))
	assert.Equal(t, http.Header{"Idempotency-Key": {uuid}, "Accept": {"*/*"}}, h)
}

func TestSetQuotesAndEscapes(t *testing.T) {
	h := http.Header{}
	require.NoError(t, tables.Key(quoted).Set(&tables.Message{Header: h}, `a"b\c`, time.Time{}))
	assert.Equal(t, `"a\"b\\c"`, h.Get("Idempotency-Key"))
}

func TestSetLeavesTheHeadersAloneWhenItFails(t *testing.T) {
	for _, key := range []providers.Key{raw, quoted} {
		h := http.Header{"Idempotency-Key": {"a"}}
		var invalid *tables.KeyError
		require.ErrorAs(t, tables.Key(key).Set(&tables.Message{Header: h}, "not\x00good", time.Time{}), &invalid)
		assert.Equal(t, http.Header{"Idempotency-Key": {"a"}}, h)
	}
}

// An endpoint without a key neither sets nor carries one.
func TestEndpointWithoutAKey(t *testing.T) {
	var none providers.Key
	h := http.Header{"Idempotency-Key": {"a"}}
	require.NoError(t, tables.Key(none).Check("anything"))
	require.NoError(t, tables.Key(none).Set(&tables.Message{Header: h}, "b", time.Time{}))
	assert.Equal(t, http.Header{"Idempotency-Key": {"a"}}, h)
	_, present, err := tables.Key(none).Carried(tables.Message{Header: h})
	require.NoError(t, err)
	assert.False(t, present)
}

func TestCarriedReadsTheRequestsKey(t *testing.T) {
	for _, tc := range []struct {
		name    string
		key     providers.Key
		lines   []string
		want    string
		present bool
		reason  string // empty: no error
	}{
		{"nothing", raw, nil, "", false, ""},
		{"nothing, quoted", quoted, nil, "", false, ""},
		{"a bare key", raw, []string{uuid}, uuid, true, ""},
		{"white space around it", raw, []string{" \t" + uuid + " "}, uuid, true, ""},
		{"a quoted key", quoted, []string{`"` + uuid + `"`}, uuid, true, ""},
		{"white space around the quotes", quoted, []string{`  "` + uuid + `"  `}, uuid, true, ""},
		{"a tab, which structured fields don't have", quoted, []string{"\t\"" + uuid + `"`}, uuid, true, ""},
		{"parameters, which are ignored", quoted, []string{`"k";v=1;w`}, "k", true, ""},
		{"escapes", quoted, []string{`"a\"b\\c"`}, `a"b\c`, true, ""},
		{"a bare UUID that should be quoted", quoted, []string{uuid}, "", true, "put it in double quotes"},
		{"a UUID that begins with a letter", quoted, []string{"a" + uuid[1:]}, "", true, "put it in double quotes"},
		{"a token", quoted, []string{"abc"}, "", true, "put it in double quotes"},
		{"an integer", quoted, []string{"42"}, "", true, "put it in double quotes"},
		{"a list", quoted, []string{`"a", "b"`}, "", true, "not a well-formed"},
		{"an open quote", quoted, []string{`"abc`}, "", true, "not a well-formed"},
		{"an unknown escape", quoted, []string{`"a\n"`}, "", true, "not a well-formed"},
		{"not ASCII", quoted, []string{`"ü"`}, "", true, "not a well-formed"},
		{"a quoted key in a raw header", raw, []string{`"` + uuid + `"`}, "", true, "leave them out"},
		{"two lines", raw, []string{"a", "b"}, "", true, "2 times"},
		{"the same line twice", raw, []string{"a", "a"}, "", true, "2 times"},
		{"two lines that together look like one string", quoted, []string{`"a`, `b"`}, "", true, "2 times"},
		{"an empty line", raw, []string{""}, "", true, "empty"},
		{"an empty string", quoted, []string{`""`}, "", true, "empty"},
		{"an empty line in a quoted header", quoted, []string{""}, "", true, "put it in double quotes"},
		{"too long", raw, []string{strings.Repeat("k", 37)}, "", true, "37 characters"},
		{"too long, quoted", quoted, []string{`"` + strings.Repeat("k", 37) + `"`}, "", true, "37 characters"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{}
			if tc.lines != nil {
				h["Idempotency-Key"] = tc.lines
			}
			got, present, err := tables.Key(tc.key).Carried(tables.Message{Header: h})
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.present, present)
			if tc.reason == "" {
				assert.NoError(t, err)
				return
			}
			var invalid *tables.KeyError
			require.ErrorAs(t, err, &invalid)
			assert.Contains(t, invalid.Reason, tc.reason)
		})
	}
}

func TestCarriedSeesHeadersInAnySpelling(t *testing.T) {
	got, present, err := tables.Key(raw).Carried(tables.Message{Header: http.Header{"idempotency-key": {"k"}}})
	require.NoError(t, err)
	assert.True(t, present)
	assert.Equal(t, "k", got)

	_, present, err = tables.Key(raw).Carried(tables.Message{Header: http.Header{"idempotency-key": {"k"}, "Idempotency-Key": {"k"}}})
	assert.True(t, present)
	assert.Error(t, err)
}

func FuzzCarriedReadsTheKeyThatSetWrote(f *testing.F) {
	f.Add(uuid, true)
	f.Add(`a"b\c`, true)
	f.Add(`"quoted"`, false)
	f.Add("a b", false)
	f.Add("", true)
	f.Add("ü\x00\r\n", false)
	f.Fuzz(func(t *testing.T, value string, inQuotes bool) {
		key := raw
		if inQuotes {
			key = quoted
		}
		h := http.Header{}
		if err := tables.Key(key).Set(&tables.Message{Header: h}, value, time.Time{}); err != nil {
			if len(h) != 0 {
				t.Fatalf("a refused key was set: %q", h)
			}
			return
		}
		got, present, err := tables.Key(key).Carried(tables.Message{Header: h})
		if err != nil || !present || got != value {
			t.Fatalf("set %q, carried %q, %t, %v", value, got, present, err)
		}
	})
}

// Carried gives a key that check takes or an error.
func FuzzCarried(f *testing.F) {
	for _, line := range []string{uuid, `"` + uuid + `"`, `"a";p=1`, `"a\"b"`, "?1", ":Zm9v:", "@1659578233", `%"x"`, "a, b", "", " ", `"`} {
		f.Add(line, true)
		f.Add(line, false)
	}
	f.Fuzz(func(t *testing.T, line string, inQuotes bool) {
		key := raw
		if inQuotes {
			key = quoted
		}
		got, present, err := tables.Key(key).Carried(tables.Message{Header: http.Header{"Idempotency-Key": {line}}})
		if !present {
			t.Fatalf("%q was there and not seen", line)
		}
		if err == nil && tables.Key(key).Check(got) != nil {
			t.Fatalf("%q gave the key %q, which is not taken", line, got)
		}
		if err != nil && got != "" {
			t.Fatalf("%q gave an error and the key %q", line, got)
		}
	})
}
