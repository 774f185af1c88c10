package secret_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/secret"
)

func TestHasCard(t *testing.T) {
	for text, has := range map[string]bool{
		`{"number":"4242424242424242"}`:             true,
		"number=4242 4242 4242 4242&x=1":            true,
		withCheckDigit("817450000000000"):           true, // RuPay
		withCheckDigit("979212345678901"):           true, // Troy
		withCheckDigit("986012345678901"):           true, // Humo
		withCheckDigit("979312345678901"):           false,
		`{"at":1700000000000,"n":4242424242424241}`: false,
		"": false,
	} {
		assert.Equal(t, has, secret.HasCard(text), text)
	}
}

// withCheckDigit completes a number by its check digit (ISO/IEC 7812-1).
func withCheckDigit(number string) string {
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return number + string(rune('0'+(10-sum%10)%10))
}

// A reason that a person types is kept without the card that it names.
func TestTextHasNoCard(t *testing.T) {
	for _, text := range []string{
		"paid by 4242 4242 4242 4242 by phone", "PAN 4242424242424242", "cvc 937", "the CVV is 937", "security code: 937", `cvc="937"`,
	} {
		got := secret.Recorded(text)
		assert.NotContains(t, got, "937", text)
		assert.NotContains(t, got, "4242", text)
		assert.Contains(t, got, "…")
		assert.Equal(t, got, secret.Text(got), "cut once")
	}
	for _, text := range []string{"order 1234567890123", "at 1764107551123", "ch_3MmlLrLkdIwHu7ix0snN0B15", "cvc failed", "code 937"} {
		assert.Equal(t, text, secret.Text(text))
	}
	assert.LessOrEqual(t, len(secret.Text(strings.Repeat("4242424242424242 ", 1<<12))), 64<<10)
}

func TestFieldsOfBodies(t *testing.T) {
	for _, row := range []struct {
		parent, name string
		kind         secret.Kind
	}{
		{"", "card_number", secret.Card}, {"card", "number", secret.Card}, {"Credit-Card", "NUMBER", secret.Card}, {"x", "CVV2", secret.Card},
		{"", "number", secret.Open}, {"phone", "number", secret.Open}, {"card", "id", secret.Open}, {"", "encryptedCardNumber", secret.Open},
		{"", "PWD", secret.Sealed}, {"client", "secret", secret.Sealed}, {"private", "key", secret.Sealed}, {"", "grant_type", secret.Sealed},
		{"", "secret", secret.Credential}, {"api", "key", secret.Credential}, {"", "X-API-Key", secret.Credential},
		{"", "token", secret.Open}, {"", "key", secret.Open}, {"", "authorization_id", secret.Open}, {"", "ClientToken", secret.Open}, {"", "", secret.Open},
		{"", "priv\u0061te\u212aey", secret.Sealed}, {strings.Repeat("x", 100), "cvc", secret.Card}, {"", strings.Repeat("cvc", 100), secret.Open},
	} {
		assert.Equal(t, row.kind, secret.Field(row.parent, row.name), "%s.%s", row.parent, row.name)
		assert.Equal(t, row.kind, secret.Field([]byte(row.parent), []byte(row.name)), "%s.%s", row.parent, row.name)
	}
}
