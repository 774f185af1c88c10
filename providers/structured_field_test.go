package providers_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

// vectors are the HTTP working group's tests for structured fields.
const vectors = "../../shared/vectors/structured-fields"

func TestQuotedKeysFollowTheStructuredFieldVectors(t *testing.T) {
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
				got, _, err := key.Carried(http.Header{"Idempotency-Key": tc.Raw})
				var want string
				isString := false
				if !tc.MustFail {
					want, isString = tc.Expected[0].(string)
				}
				// Keys are narrower than strings: one line, not empty, no space.
				if !isString || len(tc.Raw) != 1 || key.Check(want) != nil {
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
					require.NoError(t, key.Set(h, got))
					assert.Equal(t, canonical, h["Idempotency-Key"])
				}
			})
		}
	}
}

func TestStringsOfTheStructuredFieldVectorsKeepTheirSpaces(t *testing.T) {
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
		got, _, err := key.Carried(http.Header{"Idempotency-Key": tc.Raw})
		if tc.MustFail {
			assert.Error(t, err, tc.Name)
			continue
		}
		want := tc.Expected[0].(string)
		if key.Check(want) != nil || len(tc.Raw) != 1 {
			continue // empty, or white space at an end, or two lines
		}
		require.NoError(t, err, tc.Name)
		assert.Equal(t, want, got, tc.Name)
		read++
	}
	assert.Positive(t, read)
}
