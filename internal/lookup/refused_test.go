package lookup

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// An object with a refused part had no effect only if all its parts were refused.
func TestARefusalBesideAnotherStateIsNone(t *testing.T) {
	look := &providers.Lookup{Items: "data[]", Means: []providers.Meaning{
		{Field: "captures[].status", Equals: "DECLINED", Is: providers.Refused},
		{Field: "captures[].status", Equals: "FAILED", Is: providers.Refused},
		{Field: "captures[].status", Equals: "PENDING", Is: providers.InProgress},
		{Field: "captures[].status", Equals: "REFUNDED", Is: providers.Reversed},
	}}
	for text, want := range map[string]providers.Outcome{
		`{"captures":[{"status":"DECLINED"}]}`:                       providers.Refused,
		`{"captures":[{"status":"FAILED"},{"status":"DECLINED"}]}`:   providers.Refused,
		`{"captures":[{"status":"DECLINED"},{"status":"REFUNDED"}]}`: providers.Reversed,
		`{"captures":[{"status":"NEW"},{"status":"DECLINED"}]}`:      providers.TookEffect,
		`{"captures":[{"status":"DECLINED"},{"status":"PENDING"}]}`:  providers.InProgress,
		`{"captures":[]}`: providers.TookEffect,
	} {
		got, _ := OutcomeOf(look, tables.NewFields("captures[].status").Read([]byte(text)))
		assert.Equal(t, want.String(), got.String(), text)
	}
}
