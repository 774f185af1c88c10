package fingerprint

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
)

// digestLength is that of a SHA-256 in unpadded base64url.
const digestLength = (sha256.Size*8 + 5) / 6

// digester hashes one part after another as a list of strings, each after its length, so that no two lists share an
// input.
type digester struct {
	h       hash.Hash
	json    scanner
	scratch [256]byte
}

var digesters = sync.Pool{New: func() any { return &digester{h: sha256.New()} }}

// release gives the digester back, for the next fingerprint to use its memory.
func (d *digester) release() {
	d.json.forget()
	digesters.Put(d)
}

func (d *digester) start(part string) {
	d.h.Reset()
	d.string("onceward fingerprint " + version)
	d.string(part)
}

// string goes by way of scratch, since a hash takes no strings.
func (d *digester) string(s string) {
	out := binary.BigEndian.AppendUint64(d.scratch[:0], uint64(len(s)))
	for {
		n := min(len(s), cap(out)-len(out))
		d.h.Write(append(out, s[:n]...))
		if s = s[n:]; s == "" {
			return
		}
		out = d.scratch[:0]
	}
}

func (d *digester) bytes(b []byte) {
	d.length(len(b))
	d.h.Write(b)
}

func (d *digester) length(n int) {
	d.h.Write(binary.BigEndian.AppendUint64(d.scratch[:0], uint64(n)))
}

func (d *digester) appendSum(out []byte) []byte {
	return base64.RawURLEncoding.AppendEncode(out, d.h.Sum(d.scratch[:0]))
}
