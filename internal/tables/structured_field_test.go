package tables_test

import (
	"bytes"
	"encoding/base32"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// vectors are the HTTP working group's tests for structured fields.
const vectors = "../../../shared/vectors/structured-fields"

// Quoted keys follow the structured field vectors.
func TestStructuredFieldQuotedKeys(t *testing.T) {
	if _, err := os.Stat(vectors); err != nil {
		t.Skip("the structured field vectors are not here: ", vectors)
	}
	key := providers.Key{Place: providers.KeyQuotedHeader, Name: "Idempotency-Key"}
	for _, file := range []string{"item.json", "string.json", "token.json", "binary.json", "date.json", "examples.json"} {
		content, err := os.ReadFile(filepath.Join(vectors, file))
		require.NoError(t, err)
		var cases []struct {
			Name       string   `json:"name"`
			Raw        []string `json:"raw"`
			HeaderType string   `json:"header_type"`
			Expected   []any    `json:"expected"`
			MustFail   bool     `json:"must_fail"`
			Canonical  []string `json:"canonical"`
		}
		require.NoError(t, json.Unmarshal(content, &cases))
		for _, tc := range cases {
			if tc.HeaderType != "item" {
				continue
			}
			t.Run(file+"/"+tc.Name, func(t *testing.T) {
				got, _, err := tables.Key(key).Carried(tables.Message{Header: http.Header{"Idempotency-Key": tc.Raw}})
				var want string
				isString := false
				if !tc.MustFail {
					want, isString = tc.Expected[0].(string)
				}
				// Keys are narrower than strings: one line, not empty, no space.
				if !isString || len(tc.Raw) != 1 || tables.Key(key).Check(want) != nil {
					assert.Error(t, err, "%q is not a key", tc.Raw)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, want, got)

				if params := tc.Expected[1].([]any); len(params) == 0 {
					canonical := tc.Raw
					if tc.Canonical != nil {
						canonical = tc.Canonical
					}
					h := http.Header{}
					require.NoError(t, tables.Key(key).Set(&tables.Message{Header: h}, got, time.Time{}))
					assert.Equal(t, canonical, h["Idempotency-Key"])
				}
			})
		}
	}
}

// The codec reads and writes every item of the structured field vectors. It is below the keys, and serves items of
// every type and several lines as one, not only items that can be a key.
func TestStructuredFieldVectors(t *testing.T) {
	if _, err := os.Stat(vectors); err != nil {
		t.Skip("the structured field vectors are not here: ", vectors)
	}
	files, err := filepath.Glob(filepath.Join(vectors, "*.json"))
	require.NoError(t, err)
	read := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var cases []struct {
			Name       string   `json:"name"`
			Raw        []string `json:"raw"`
			HeaderType string   `json:"header_type"`
			Expected   []any    `json:"expected"`
			MustFail   bool     `json:"must_fail"`
			CanFail    bool     `json:"can_fail"`
			Canonical  []string `json:"canonical"`
		}
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&cases))
		for _, tc := range cases {
			if tc.HeaderType != "item" {
				continue
			}
			t.Run(filepath.Base(file)+"/"+tc.Name, func(t *testing.T) {
				item, err := httpsfv.UnmarshalItem(tc.Raw)
				if tc.MustFail {
					require.Error(t, err)
					return
				}
				if tc.CanFail && err != nil {
					return
				}
				require.NoError(t, err)
				read++
				assert.Equal(t, tc.Expected[0], asInVectors(item.Value))
				params := []any{}
				for _, name := range item.Params.Names() {
					value, _ := item.Params.Get(name)
					params = append(params, []any{name, asInVectors(value)})
				}
				assert.Equal(t, tc.Expected[1], params)

				canonical := tc.Raw
				if tc.Canonical != nil {
					canonical = tc.Canonical
				}
				text, err := httpsfv.Marshal(item)
				require.NoError(t, err)
				assert.Equal(t, canonical, []string{text})
			})
		}
	}
	assert.Positive(t, read)
}

// asInVectors is a bare item as the vectors' JSON has it.
func asInVectors(value any) any {
	tagged := func(kind string, value any) any { return map[string]any{"__type": kind, "value": value} }
	switch v := value.(type) {
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case float64:
		return json.Number(strconv.FormatFloat(v, 'f', -1, 64))
	case httpsfv.Token:
		return tagged("token", string(v))
	case []byte:
		return tagged("binary", base32.StdEncoding.EncodeToString(v))
	case time.Time:
		return tagged("date", json.Number(strconv.FormatInt(v.Unix(), 10)))
	}
	return value
}

// Strings of the structured field vectors keep their spaces.
func TestStructuredFieldStringsKeepSpaces(t *testing.T) {
	if _, err := os.Stat(vectors); err != nil {
		t.Skip("the structured field vectors are not here: ", vectors)
	}
	printable := make([]byte, 0, '~'-' '+1)
	for c := byte(' '); c <= '~'; c++ {
		printable = append(printable, c)
	}
	key := providers.Key{Place: providers.KeyQuotedHeader, Name: "Idempotency-Key", Alphabet: string(printable)}
	content, err := os.ReadFile(filepath.Join(vectors, "string.json"))
	require.NoError(t, err)
	var cases []struct {
		Name     string   `json:"name"`
		Raw      []string `json:"raw"`
		Expected []any    `json:"expected"`
		MustFail bool     `json:"must_fail"`
	}
	require.NoError(t, json.Unmarshal(content, &cases))
	read := 0
	for _, tc := range cases {
		got, _, err := tables.Key(key).Carried(tables.Message{Header: http.Header{"Idempotency-Key": tc.Raw}})
		if tc.MustFail {
			assert.Error(t, err, tc.Name)
			continue
		}
		want := tc.Expected[0].(string)
		if tables.Key(key).Check(want) != nil || len(tc.Raw) != 1 {
			continue // empty, or white space at an end, or two lines
		}
		require.NoError(t, err, tc.Name)
		assert.Equal(t, want, got, tc.Name)
		read++
	}
	assert.Positive(t, read)
}
