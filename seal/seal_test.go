package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/seal"
)

// secret is a root key that is easy to find in a text.
func secret(word string) []byte {
	return []byte(strings.Repeat(word+"-", seal.SecretSize))[:seal.SecretSize]
}

func ring(t testing.TB, ids ...string) *seal.Ring {
	t.Helper()
	var all []seal.Key
	for _, id := range ids {
		all = append(all, seal.Key{ID: id, Secret: secret(id)})
	}
	r, err := seal.NewRing(all...)
	require.NoError(t, err)
	return r
}

func TestABoxOpensWithItsKeyAndItsData(t *testing.T) {
	r := ring(t, "k1")
	box := r.Seal([]byte("before"), []byte("content"), []byte("invoice-991"))
	require.True(t, bytes.HasPrefix(box, []byte("before")))
	box = box[len("before"):]
	assert.LessOrEqual(t, len(box), len("content")+seal.Overhead)
	id, is := seal.KeyOf(box)
	assert.True(t, is)
	assert.Equal(t, "k1", id)
	for range 2 { // the second time by the derived key that the ring remembers
		plain, err := r.Open(box, []byte("invoice-991"))
		require.NoError(t, err)
		assert.Equal(t, "content", string(plain))
	}
	plain, err := ring(t, "k2", "k1").ReadClear().Open(box, []byte("invoice-991"))
	require.NoError(t, err, "a rotated ring in another process")
	assert.Equal(t, "content", string(plain))

	_, err = r.Open(box, []byte("invoice-992"))
	assert.ErrorIs(t, err, seal.ErrDamaged)
	for _, lacks := range []*seal.Ring{nil, ring(t, "k2")} {
		_, err := lacks.Open(box, []byte("invoice-991"))
		var missing *seal.MissingKeyError
		require.ErrorAs(t, err, &missing)
		assert.Equal(t, "k1", missing.ID)
	}
	other, err := seal.NewRing(seal.Key{ID: "k1", Secret: secret("other")})
	require.NoError(t, err)
	_, err = other.Open(box, []byte("invoice-991"))
	assert.ErrorIs(t, err, seal.ErrDamaged, "another secret under the ID")
	assert.NotEqual(t, box, r.Seal(nil, []byte("content"), []byte("invoice-991")), "no two boxes are equal")
}

func TestFlippedBitsAndShortBoxes(t *testing.T) {
	r := ring(t, "k1", "k3") // k1 with a flipped bit is k3
	box := r.Seal(nil, []byte("content"), nil)
	for bit := range len(box) * 8 {
		flipped := bytes.Clone(box)
		flipped[bit/8] ^= 1 << (bit % 8)
		_, err := r.Open(flipped, nil)
		require.Error(t, err, "bit %d", bit)
	}
	for n := range len(box) {
		_, err := r.Open(box[:n], nil)
		require.ErrorIs(t, err, seal.ErrDamaged, "%d bytes", n)
	}
}

func TestKeysThatAreNone(t *testing.T) {
	for name, keys := range map[string][]seal.Key{
		"no key at all":           nil,
		"no ID":                   {{Secret: secret("a")}},
		"a long ID":               {{ID: strings.Repeat("k", 17), Secret: secret("a")}},
		"an ID with capitals":     {{ID: "K1", Secret: secret("a")}},
		"an ID with a line":       {{ID: "k\n1", Secret: secret("a")}},
		"a short secret":          {{ID: "k1", Secret: secret("a")[:31]}},
		"no secret":               {{ID: "k1"}},
		"a secret that was zero":  {{ID: "k1", Secret: make([]byte, seal.SecretSize)}},
		"one ID twice":            {{ID: "k1", Secret: secret("a")}, {ID: "k1", Secret: secret("b")}},
		"one secret twice":        {{ID: "k1", Secret: secret("a")}, {ID: "k2", Secret: secret("a")}},
		"the second without a ID": {{ID: "k1", Secret: secret("a")}, {Secret: secret("b")}},
	} {
		r, err := seal.NewRing(keys...)
		assert.Error(t, err, name)
		assert.Nil(t, r, name)
	}
}

func TestNewRingCopiesItsSecrets(t *testing.T) {
	own := secret("k1")
	r, err := seal.NewRing(seal.Key{ID: "k1", Secret: own})
	require.NoError(t, err)
	clear(own)
	_, err = ring(t, "k1").Open(r.Seal(nil, []byte("content"), nil), nil)
	assert.NoError(t, err)
}

func TestParseRing(t *testing.T) {
	line := func(id string) string { return id + ":" + base64.StdEncoding.EncodeToString(secret(id)) }
	r, err := seal.ParseRing([]byte("# of the shop\n\n" + line("k2") + "\r\n  " + line("k1")))
	require.NoError(t, err)
	assert.Equal(t, []string{"k2", "k1"}, r.IDs())
	_, err = r.Open(ring(t, "k1").Seal(nil, nil, nil), nil)
	assert.NoError(t, err)

	for name, text := range map[string]string{
		"nothing":            "",
		"only a comment":     "# k1",
		"no colon":           "k1 " + strings.TrimPrefix(line("k1"), "k1:"),
		"no base64":          "k1:secret-word",
		"the wrong way":      base64.StdEncoding.EncodeToString(secret("k1")) + ":k1",
		"a password":         "k1:" + base64.StdEncoding.EncodeToString([]byte("secret-word")),
		"the second one":     line("k1") + "\nsecret-word:" + strings.TrimPrefix(line("k2"), "k2:"),
		"base64 of URLs":     "k1:" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xff, 0xfe}, 16)),
		"bits that are lost": "k1:" + strings.TrimSuffix(strings.TrimPrefix(line("k1"), "k1:"), "=") + "9",
	} {
		_, err := seal.ParseRing([]byte(text))
		if name == "the second one" { // it is a good ID
			assert.NoError(t, err)
			continue
		}
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), "secret-word", name)
		assert.NotContains(t, err.Error(), base64.StdEncoding.EncodeToString(secret("k1"))[:8], name)
	}
	_, err = seal.ParseRing([]byte(line("k1") + "\nk2:short"))
	assert.ErrorContains(t, err, "line 2")
}

// No format and no encoding shows a secret, also not of a struct with a key or a ring.
func TestNoFormatShowsASecret(t *testing.T) {
	r := ring(t, "k1")
	key := seal.Key{ID: "k1", Secret: secret("k1")}
	type config struct {
		Name string
		Key  seal.Key
		Ring *seal.Ring
		own  *seal.Ring
		ring seal.Ring
	}
	with := config{"shop", key, r, r, *r} //nolint:govet // a copy of a ring shows none either
	var texts []string
	for _, v := range []any{key, &key, r, with, &with, []seal.Key{key}, map[string]any{"key": key, "ring": r}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			texts = append(texts, fmt.Sprintf(verb, v))
		}
		encoded, err := json.Marshal(v)
		require.NoError(t, err)
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("opened", "v", v)
		slog.New(slog.NewTextHandler(&log, nil)).Info("opened", "v", v)
		texts = append(texts, string(encoded), log.String())
	}
	is := secret("k1")
	for _, text := range texts {
		for name, shown := range map[string]string{
			"as it is": string(is[:8]), "in hex": fmt.Sprintf("%x", is[:8]), "in capitals": fmt.Sprintf("%X", is[:8]), "in base64": base64.StdEncoding.EncodeToString(is[:9]),
			"as numbers": strings.Trim(fmt.Sprint(is[:8]), "[]"), "in Go": strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", is[:4]), "[]byte{"), "}"),
		} {
			assert.NotContains(t, text, shown, name)
		}
	}
	assert.Equal(t, "ring of k1", fmt.Sprint(r))
	assert.Equal(t, "key k1", fmt.Sprint(key))
}

func FuzzParseRing(f *testing.F) {
	f.Add([]byte("k1:" + base64.StdEncoding.EncodeToString(secret("k1")) + "\n# end"))
	f.Add([]byte("k1:secret"))
	f.Add([]byte("\n:\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := seal.ParseRing(text)
		if err != nil {
			require.Nil(t, r)
			return
		}
		plain, err := r.Open(r.Seal(nil, text, nil), nil)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, plain))
	})
}

func FuzzOpen(f *testing.F) {
	r := ring(f, "k1")
	f.Add(r.Seal(nil, []byte("content"), []byte("data")), []byte("data"))
	f.Add([]byte{1, 2, 'k', '1'}, []byte{})
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, box, data []byte) {
		was := bytes.Clone(box)
		plain, err := r.Open(box, data)
		require.Equal(t, was, box)
		if err == nil {
			id, is := seal.KeyOf(box)
			require.True(t, is)
			require.Equal(t, "k1", id)
			require.Equal(t, "content", string(plain), "only a box of this ring opens")
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	r := ring(b, "k1")
	plain, data := make([]byte, 1024), []byte("invoice-991")
	box := r.Seal(nil, plain, data)
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		dst := make([]byte, 0, len(box))
		for b.Loop() {
			dst = r.Seal(dst[:0], plain, data)
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Open(box, data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
