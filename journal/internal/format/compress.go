package format

import (
	"bytes"

	"github.com/klauspost/compress/zstd"
)

const (
	// compressAbove is the size in bytes above which compression makes operations faster, by BenchmarkLargeBodies.
	// Below, compression costs the processor more than the disk gains.
	compressAbove = 4 << 10
	// maxCompressed is the largest body that is compressed, so no damaged body takes more memory.
	maxCompressed = 1 << 30
)

// The encoder and the decoder are safe for concurrent use. Both keep their parts in a channel, so they are made with
// the program: a bubble of testing/synctest that made such a channel would keep all others from the parts.
var compressor, decompressor = newCodecs()

func newCodecs() (*zstd.Encoder, *zstd.Decoder) {
	// No option is wrong, so that there is no error.
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true), zstd.WithEncoderConcurrency(2))
	e.EncodeAll([]byte{0}, nil) // the channel is made here
	d, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxCompressed), zstd.WithDecoderLowmem(true))
	return e, d
}

// Compress returns a copy of a body as it is stored, and whether the copy is compressed. It is if the body is
// large and compression saves at least an eighth.
func Compress(body []byte) (stored []byte, compressed bool) {
	if len(body) > compressAbove && len(body) <= maxCompressed {
		packed := compressor.EncodeAll(body, nil)
		if len(packed) <= len(body)-len(body)/8 {
			return packed, true
		}
	}
	return bytes.Clone(body), false
}

// expand returns the original body. It shares no memory with stored.
func expand(stored []byte, compressed bool) ([]byte, error) {
	if !compressed {
		return bytes.Clone(stored), nil
	}
	body, err := decompressor.DecodeAll(stored, nil)
	if err != nil {
		return nil, ErrDamaged
	}
	return body, nil
}
