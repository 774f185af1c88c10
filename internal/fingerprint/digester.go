package fingerprint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// digester hashes one part after another as a string list, each after its length, so no two lists have the same
// input.
type digester struct {
	h       hash.Hash
	json    scanner
	watch   watch
	scratch [256]byte
}

var digesters = sync.Pool{New: func() any { return &digester{h: sha256.New()} }}

// release gives the digester back, for the next fingerprint to use its memory.
func (d *digester) release() {
	d.json.forget()
	d.watch = watch{}
	digesters.Put(d)
}

func (d *digester) start(part string) {
	d.h.Reset()
	d.string("onceward fingerprint " + plainVersion)
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

// sum writes the digest by way of scratch too, so that into stays off the heap.
func (d *digester) sum(into *[sha256.Size]byte) { copy(into[:], d.h.Sum(d.scratch[:0])) }

func (d *digester) length(n int) {
	d.h.Write(binary.BigEndian.AppendUint64(d.scratch[:0], uint64(n)))
}

// watch looks at a context now and then, while something goes on.
type watch struct {
	ctx   context.Context
	steps int
	over  bool // it has ended
}

// ended reports whether the context has ended. It is called at every step.
func (w *watch) ended() bool {
	if w.steps++; w.steps%512 == 0 && w.ctx != nil && w.ctx.Err() != nil {
		w.over = true
	}
	return w.over
}
