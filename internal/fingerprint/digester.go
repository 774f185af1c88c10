package fingerprint

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
)

// digestLength is that of a SHA-256 in unpadded base64url.
const digestLength = (sha256.Size*8 + 5) / 6

// digester hashes one part after another as a list of strings, each after its length, so that no two lists share an
// input.
type digester struct {
	h       hash.Hash
	scratch []byte
	first   [256]byte // of scratch, until more is needed
}

func newDigester() *digester {
	d := &digester{h: sha256.New()}
	d.scratch = d.first[:0]
	return d
}

func (d *digester) start(part string) {
	d.h.Reset()
	d.string("onceward fingerprint " + version)
	d.string(part)
}

func (d *digester) string(s string) {
	d.scratch = binary.BigEndian.AppendUint64(d.scratch[:0], uint64(len(s)))
	d.scratch = append(d.scratch, s...)
	d.h.Write(d.scratch)
}

func (d *digester) bytes(b []byte) {
	d.length(len(b))
	d.h.Write(b)
}

func (d *digester) length(n int) {
	d.scratch = binary.BigEndian.AppendUint64(d.scratch[:0], uint64(n))
	d.h.Write(d.scratch)
}

func (d *digester) appendSum(out []byte) []byte {
	d.scratch = d.h.Sum(d.scratch[:0])
	return base64.RawURLEncoding.AppendEncode(out, d.scratch)
}
