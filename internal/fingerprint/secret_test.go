package fingerprint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/sample"
)

func entry(t testing.TB, ticket string) fingerprint.Input {
	in := charge(t)
	in.Counted = ticket
	return in
}

func card(t testing.TB, number string, key []byte) fingerprint.Input {
	in := charge(t)
	in.Body = []byte(`{"number":"` + number + `"}`)
	in.Secret, in.Key = true, key
	return in
}

func TestWithheldFieldsDistinguishRequests(t *testing.T) {
	for _, tc := range []struct{ name, a, b, differ string }{
		{"the same", "ticket=1", "ticket=1", ""},
		{"another value", "ticket=1", "ticket=2", "URL"},
		{"another name", "ticket=1", "pin=1", "URL"},
		{"one more", "ticket=1", "ticket=1&pin=1", "URL"},
		{"none", "ticket=1", "", "URL"},
		{"another order", "ticket=1&pin=2", "pin=2&ticket=1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.differ, differ(t, entry(t, tc.a), entry(t, tc.b)))
		})
	}
}

func TestSecretBodiesDistinguishRequests(t *testing.T) {
	key := []byte("kept elsewhere")
	assert.Empty(t, differ(t, card(t, "4242", key), card(t, "4242", key)))
	assert.Equal(t, "body", differ(t, card(t, "4242", key), card(t, "4243", key)))
}

// Without a key the fingerprint has no digest of a secret body, and everything else is compared.
func TestWithoutAKeyASecretBodyDoesNotCount(t *testing.T) {
	another := func(in fingerprint.Input, change func(*fingerprint.Input)) fingerprint.Input {
		change(&in)
		return in
	}
	assert.Empty(t, differ(t, card(t, "4242", nil), card(t, "4243", nil)))
	assert.Equal(t, "method", differ(t, card(t, "4242", nil), another(card(t, "4242", nil), func(in *fingerprint.Input) { in.Method = "PUT" })))
	open := another(card(t, "4242", nil), func(in *fingerprint.Input) { in.Secret = false })
	assert.Empty(t, differ(t, card(t, "4242", nil), open), "a table that is corrected finds its operations")
	later := printOf(card(t, "4242", []byte("a key that is set later")))
	assert.True(t, later.Same(fingerprint.Of(card(t, "4242", nil))))

	stored := strings.Fields(fingerprint.Of(card(t, "4242", nil)))
	assert.Equal(t, strings.Repeat("A", 43), stored[len(stored)-1], "no digest of the body")
}

// A body that became a secret is the same request.
// A table that is corrected makes a body a secret, or none, of operations that are under way.
func TestSecretBodyIsTheSameRequest(t *testing.T) {
	secret := card(t, "4242", []byte("kept elsewhere"))
	plain := secret
	plain.Secret = false
	assert.Empty(t, differ(t, plain, secret))
	other := card(t, "4243", []byte("kept elsewhere"))
	assert.Equal(t, "body", differ(t, plain, other))
}

// A fingerprint is salted only if the request has a secret. A guess of the secret can't be verified: no two
// fingerprints are alike, and none holds a digest of the parts.
func TestSecretsFingerprintIsSalted(t *testing.T) {
	digests := func(s string) []string { return strings.Fields(s) }
	plain := digests(fingerprint.Of(charge(t)))
	assert.Equal(t, "v1", plain[0])
	for name, tc := range map[string]struct {
		in      fingerprint.Input
		version string
	}{
		"withheld":           {entry(t, "ticket=1"), "v2"},
		"a body under a key": {card(t, "4242", []byte("kept elsewhere")), "v3"},
	} {
		t.Run(name, func(t *testing.T) {
			unsalted := tc.in
			unsalted.Counted, unsalted.Secret, unsalted.Key = "", false, nil
			seen := map[string]bool{}
			for _, digest := range digests(fingerprint.Of(unsalted)) {
				seen[digest] = true
			}
			for range 3 {
				print := printOf(tc.in)
				stored := print.Fingerprint()
				assert.True(t, print.Same(stored))
				assert.Equal(t, tc.version, digests(stored)[0])
				for _, digest := range digests(stored)[1:] {
					assert.False(t, seen[digest])
					seen[digest] = true
				}
			}
		})
	}
}

// A fingerprint under a key is compared under that key alone.
func TestSecretsFingerprintUnderAnotherKey(t *testing.T) {
	stored := fingerprint.Of(card(t, "4242", []byte("kept elsewhere")))
	_, err := printOf(card(t, "4242", nil)).Diff(stored)
	assert.ErrorIs(t, err, fingerprint.ErrKey)
	assert.False(t, printOf(card(t, "4242", nil)).Same(stored))
	another := printOf(card(t, "4242", []byte("another")))
	assert.False(t, another.Same(stored))
	_, err = another.Diff(stored)
	assert.ErrorIs(t, err, fingerprint.ErrKey, "it is not said that the request differs")
	assert.True(t, printOf(card(t, "4242", []byte("kept elsewhere"))).Same(stored))
}

// A stored fingerprint matches the same request in a later release.
func TestFingerprintsOfSecretsNeverChange(t *testing.T) {
	for _, tc := range []struct {
		name, stored string
		in           fingerprint.Input
	}{
		{"withheld", "v2 9YXGTcjEq3gob2p_0LU6_g uDvT76f7pUmdUuVtDIolSIDqvcUioop8IDeozAqNfcQ " +
			"I0yh2TJY_U0KAqU7wFHJU3_4ahGhP32mgu6aQRtYBU8 VzakXc2LoQHHvKhseDRtOLB2NR2a9VvU-rwgUGqvXwQ " +
			"F2hv5OVdFSkIa6Ixk7CDjP5t1ZVYdU2YqDU6JEKGugw", entry(t, "ticket=1")},
		{"a body", "v2 yEAoeMNmnIgC95BnVhACWg 0XO3VWopyTvoKUGR1Ifbuva0_7F75tBSURS7g5IsFFo " +
			"pd4FjAgZO94eZNfxG7JNL_KBBu_04PXE3b2_wwlxdhM jvNMzzclK6DJQv_1wi26T4oQBlkWPO4glrVnLrHSxds " +
			"ZSdiB0FqR7BGOBJ3IxfI4wS4xS7nNpzfDeirfh53Ttc", card(t, "4242", nil)},
		{"a body under a key", "v3 IgRmE7FWrPitgMUbr18JOA du1VKHdatcfS4Yp7XSMAZJ7HqwMJ_fF0sb5KWTfQEps " +
			"Xd6jwNb_Xr4ydINK6SaYj-00LY_0ET7SArCHxRWh92Y fN-SCYll8UirJ2myUmtPc1HwzaHwLy-mi2spD5XbHEI " +
			"RQNZP83BZKbd2Nk8vTOR0XxNvFlVdtixLF3XPfPCrvQ", card(t, "4242", []byte("kept elsewhere"))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !assert.True(t, printOf(tc.in).Same(tc.stored)) {
				t.Log(fingerprint.Of(tc.in))
			}
		})
	}
}

func repeatUpTo(size int, piece func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		b.WriteString(piece(i))
	}
	return b.String()
}

// Fingerprints of large bodies are fast. With every case, a fingerprint in quadratic time would not end within a test.
func TestFingerprintsOfLargeBodies(t *testing.T) {
	t.Parallel()
	much := sample.Size(128<<10, 2<<20) // of a stranger's body or query
	contentType, _ := multipartBody(t, "b")
	for name, in := range map[string]fingerprint.Input{
		"a form of lists":                 {ContentType: formType, Body: []byte(repeatUpTo(much, func(i int) string { return fmt.Sprintf("%d[]&", i) }))},
		"a form of names":                 {ContentType: formType, Body: []byte(repeatUpTo(much, func(i int) string { return fmt.Sprintf("%d&", i*7919%much) }))},
		"a form of a name":                {ContentType: formType, Body: []byte(strings.Repeat("a&", much/2))},
		"a query of lists":                {URL: parse(t, "https://h/?"+repeatUpTo(much, func(i int) string { return fmt.Sprintf("%d[]&", i) }))},
		"withheld lists":                  {Counted: repeatUpTo(much, func(i int) string { return fmt.Sprintf("%d[]&", i) })},
		"a form of brackets":              {ContentType: formType, Body: []byte(strings.Repeat("[", much/2) + "&" + strings.Repeat("[", much/2))},
		"an object of names":              {ContentType: jsonType, Body: []byte("{" + repeatUpTo(much, func(i int) string { return fmt.Sprintf(`"%d":0,`, i*7919%much) }) + `"":0}`)},
		"an object of names beyond ASCII": {ContentType: jsonType, Body: []byte("{" + repeatUpTo(much, func(i int) string { return fmt.Sprintf(`"é%d":0,`, i*7919%much) }) + `"":0}`)},
		"objects in objects":              {ContentType: jsonType, Body: nested(much)},
		"a number":                        {ContentType: jsonType, Body: []byte(strings.Repeat("9", much))},
		"a part each":                     {ContentType: contentType, Body: []byte(repeatUpTo(much, func(int) string { return "--b\r\nContent-Disposition: form-data\r\n\r\n\r\n" }) + "--b--")},
	} {
		t.Run(name, func(t *testing.T) {
			print := printOf(in)
			assert.True(t, print.Same(print.Fingerprint()))
		})
	}
}

// nested has its members in no order at any depth, so that all that is inside is moved.
func nested(size int) []byte {
	const depth = 190
	return []byte(strings.Repeat(`{"b":`, depth) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(`,"a":0}`, depth))
}

func TestAnObjectIsTheSameHoweverDeepItIs(t *testing.T) {
	form, content := fingerprint.CanonicalJSON(nested(1<<10), nil)
	assert.Equal(t, "json", form)
	assert.Equal(t, strings.Repeat(`{"a":0,"b":`, 190)+`"`+strings.Repeat("x", 1<<10)+`"`+strings.Repeat("}", 190), string(content))
}

// No fingerprint is made for a caller who is gone.
func TestNoFingerprintForACancelledCaller(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(gone)
	for name, in := range map[string]fingerprint.Input{
		"a form":        {ContentType: formType, Body: []byte(strings.Repeat("a&", 1<<10))},
		"a query":       {URL: parse(t, "https://h/?"+strings.Repeat("a&", 1<<10))},
		"withheld":      {Counted: strings.Repeat("a&", 1<<10)},
		"JSON":          {ContentType: jsonType, Body: []byte("[" + strings.Repeat("0,", 1<<10) + "0]")},
		"a part each":   {ContentType: "multipart/form-data; boundary=b", Body: []byte(strings.Repeat("--b\r\nContent-Disposition: form-data\r\n\r\n\r\n", 1<<10) + "--b--")},
		"several of it": {Counted: strings.Repeat("a&", 300), URL: parse(t, "https://h/?"+strings.Repeat("a&", 300))},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fingerprint.New(ctx, in)
			require.ErrorIs(t, err, gone)
		})
	}
	_, err := fingerprint.New(t.Context(), fingerprint.Input{ContentType: formType, Body: []byte(strings.Repeat("a&", 1<<10))})
	assert.NoError(t, err, "the digester is not reused with a context that has ended")
}
