package request_test

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

func TestNewKeyIsALowerCaseRandomUUID(t *testing.T) {
	lower := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[onceward.Key]bool{}
	for range 1000 {
		key := onceward.NewKey()
		require.Regexp(t, lower, string(key))
		require.NoError(t, key.Validate())
		require.False(t, seen[key], "two calls gave one key")
		seen[key] = true
	}
}

// A key that is derived in the form of a random one ends with 0de8. No random key does: its operation would be taken for one
// whose key may come back, and an event without a time would not settle it.
func TestNewKeyHasNotTheMarkOfADerivedOne(t *testing.T) {
	for range 1 << 20 {
		if key := onceward.NewKey(); strings.HasSuffix(string(key), "0de8") {
			t.Fatal(key)
		}
	}
}

// The keys in the two golden tables were computed by a separate program from the published construction. They must
// never change, because a changed child key is a second effect at the provider.

func TestChildKeysNeverChange(t *testing.T) {
	parent := onceward.Key("6f1c2f9e-8f0b-4c52-9d2e-0d6a3f5b7c11")
	for _, tc := range []struct {
		name   string
		parent onceward.Key
		step   string
		want   onceward.Key
	}{
		{"a step", parent, "charge", "72a68032-74fc-852a-9dd0-295bbd2287f3"},
		{"another step", parent, "receipt", "a64fe55b-37e3-86f2-8cf0-32c79bd29ac7"},
		{"an empty step", parent, "", "1c80bc62-1301-8291-a5dd-21c2ab27ae32"},
		{"an empty parent", "", "charge", "2e361a3f-a100-84c5-8b59-c10f9c4afeb1"},
		{"a grandchild", parent.Child("charge"), "ledger", "34cae789-19b6-8cf0-bbb5-ae84da8014c6"},
		{"beyond ASCII", "order-991", "größe", "22af2417-8397-85e6-b13c-e3acbc25330a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, tc.parent.Child(tc.step))
		})
	}
}

func TestDerivedKeysNeverChange(t *testing.T) {
	long := []byte("0123456789abcdef0123456789abcdef")
	for _, tc := range []struct {
		name   string
		secret []byte
		parts  []string
		want   onceward.Key
	}{
		{"one empty part", testSecret, []string{""}, "12cb31b9-44be-84e7-99a4-8e11a2237477"},
		{"scope, parent and step", testSecret, []string{"tenant-42", "inbound-1", "charge"}, "2ff4f0c9-db41-8b92-bedb-7ebe5f65b4f1"},
		{"the empty scope", testSecret, []string{"", "inbound-1", "charge"}, "756cea92-fe62-8910-ab24-96f1512875ed"},
		{"another secret", long, []string{"tenant-42", "inbound-1", "charge"}, "2ad244b3-ddf4-88c8-a300-3db7755ffa2a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, err := onceward.DeriveKey(tc.secret, tc.parts...)
			require.NoError(t, err)
			assert.Equal(t, tc.want, key)
		})
	}
}

// DeriveKey refuses parts that would make a guessable or shared key.
func TestDeriveKeyRefusesGuessableParts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		secret []byte
		parts  []string
		want   string
	}{
		{"no secret", nil, []string{"a"}, "a secret of 0 bytes"},
		{"a short secret", []byte("fifteen-bytes!!"), []string{"a"}, "a secret of 15 bytes"},
		{"no parts", testSecret, nil, "no parts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, err := onceward.DeriveKey(tc.secret, tc.parts...)
			assert.Empty(t, key)
			require.ErrorContains(t, err, tc.want)
			assert.NotContains(t, err.Error(), "fifteen")
		})
	}
}

// lists are the parts that concatenation, or a count or length left out, would confuse.
var lists = [][]string{
	{"a", "bc"}, {"ab", "c"}, {"abc"}, {"abc", ""}, {"", "abc"}, {"a", "b", "c"}, {""}, {"", ""}, {"", "", ""},
	{"a", "bc", ""}, {"a/bc"}, {"a\x00bc"}, {"bc", "a"}, {"A", "bc"},
	{"a\x00\x00\x00\x00\x00\x00\x00\x02bc"},
}

// No two lists of parts share a derived key.
func TestDerivedKeysAreDistinct(t *testing.T) {
	seen := map[onceward.Key][]string{}
	for _, parts := range lists {
		key, err := onceward.DeriveKey(testSecret, parts...)
		require.NoError(t, err)
		require.NotContains(t, seen, key, "%q", parts)
		seen[key] = parts
	}
}

// No two pairs of parent and step share a child key.
func TestChildKeysAreDistinct(t *testing.T) {
	seen := map[onceward.Key][]string{}
	for _, pair := range lists {
		if len(pair) != 2 {
			continue
		}
		key := onceward.Key(pair[0]).Child(pair[1])
		require.NotContains(t, seen, key, "%q", pair)
		seen[key] = pair
	}
}

// Derived and child keys are valid UUIDs of version 8.
func FuzzDerivedKeysAreUUIDsOfVersion8(f *testing.F) {
	f.Add("a", "bc", "ab", "c")
	f.Add("", "", "", "")
	f.Add("tenant-42", "charge", "tenant-42", "charge")
	f.Fuzz(func(t *testing.T, p1, s1, p2, s2 string) {
		same := p1 == p2 && s1 == s2
		c1, c2 := onceward.Key(p1).Child(s1), onceward.Key(p2).Child(s2)
		assert.Equal(t, same, c1 == c2)

		d1, err := onceward.DeriveKey(testSecret, p1, s1)
		require.NoError(t, err)
		d2, err := onceward.DeriveKey(testSecret, p2, s2)
		require.NoError(t, err)
		assert.Equal(t, same, d1 == d2)
		assert.NotEqual(t, c1, d1)

		for _, key := range []onceward.Key{c1, d1} {
			require.NoError(t, key.Validate())
			id, err := uuid.Parse(string(key))
			require.NoError(t, err)
			assert.Equal(t, uuid.Version(8), id.Version())
			assert.Equal(t, uuid.RFC4122, id.Variant())
			assert.Equal(t, id.String(), string(key))
		}
	})
}

func TestValidateNamesTheKeysFault(t *testing.T) {
	for _, tc := range []struct {
		name string
		key  onceward.Key
		want string // empty: valid
	}{
		{"a UUID", "6f1c2f9e-8f0b-4c52-9d2e-0d6a3f5b7c11", ""},
		{"one character", "k", ""},
		{"the ends of the alphabet", "!~", ""},
		{"a quote and a backslash, which the quoted form escapes", `a"b\c`, ""},
		{"the greatest length", onceward.Key(strings.Repeat("k", 255)), ""},
		{"nothing", "", "is empty"},
		{"too long", onceward.Key(strings.Repeat("k", 256)), "is longer than 255 bytes"},
		{"a space", "in voice", "not visible ASCII"},
		{"a line break, which would forge a header", "a\r\nX-Evil: 1", "not visible ASCII"},
		{"DEL", "a\x7f", "not visible ASCII"},
		{"beyond ASCII", "größe", "not visible ASCII"},
		{"an address", "jo.doe@example.com", "contains an @"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.key.Validate()
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, onceward.ErrInvalidKey)
			var invalid *onceward.KeyError
			require.ErrorAs(t, err, &invalid)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// Validate accepts exactly visible ASCII without @.
func FuzzValidateAcceptsVisibleASCII(f *testing.F) {
	for _, seed := range []string{"", "k", "a b", "a@b", `"\`, "\x00", "größe", "\xff", strings.Repeat("k", 256)} {
		f.Add(seed)
	}
	valid := regexp.MustCompile(`\A[!-?A-~]{1,255}\z`)
	// A closed set of reasons proves that no error tells anything of the key's own text.
	reasons := []string{
		"is empty", "is longer than 255 bytes", "contains a character that is not visible ASCII",
		"contains an @; keys must hold no personal data",
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := onceward.Key(s).Validate()
		require.Equal(t, valid.MatchString(s), err == nil)
		var invalid *onceward.KeyError
		if errors.As(err, &invalid) {
			assert.Contains(t, reasons, invalid.Reason)
		}
	})
}

func TestLogsShowShortenedKeys(t *testing.T) {
	for _, tc := range []struct {
		key  onceward.Key
		want string
	}{
		{"6f1c2f9e-8f0b-4c52-9d2e-0d6a3f5b7c11", "key=6f1c2f9e…\n"},
		{"order-991", "key=orde…\n"},
		{"k", "key=…\n"},
		{"", "key=…\n"},
	} {
		t.Run(string(tc.key), func(t *testing.T) {
			var out bytes.Buffer
			onlyKey := func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == "key" {
					return a
				}
				return slog.Attr{}
			}
			logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: onlyKey}))
			logger.Info("sent", "key", tc.key)
			assert.Equal(t, tc.want, out.String())
		})
	}
}

// All processes derive the same key for a later generation, too.
func TestALaterGenerationsKeyIsDerived(t *testing.T) {
	secret := []byte("a secret of sixteen bytes or more")
	for name, again := range map[string]onceward.Resolution{"asked again": onceward.NotExecuted, "sent again": onceward.SendAgain} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(frozen)
			p := start(t, l, onceward.Config{Secret: secret})
			ref := onceward.Ref{Scope: "tenant", ID: invoice}
			ctx := onceward.WithScope(named(t, invoice), "tenant")
			require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrOutcomeUnknown)
			_, err := p.ResolveAs(ref, again, nil)
			require.NoError(t, err)
			if again == onceward.NotExecuted {
				require.NoError(t, p.Ask(ctx).Err)
			} else {
				_, err := p.Resume(t.Context())
				require.NoError(t, err)
			}
			want, err := onceward.DeriveKey(secret, "operation", "tenant", "", invoice, "1")
			require.NoError(t, err)
			assert.Equal(t, string(want), l.Keys()[1])
		})
	}
}

// A step's key within a scope is the same in every release.
func TestScopedChildKeyIsKept(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		require.NoError(t, p.Ask(onceward.WithScope(onceward.WithParent(named(t, "step"), "parent-1"), "tenant-1")).Err)
		assert.Equal(t, []string{"b116ca5a-2305-8aab-ba85-4b6679942eac"}, l.Keys())
	})
}
