package jsontext_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/jsontext"
)

// Every pair of bytes at every place within three words is found where a search byte by byte finds it.
func TestOrdinary(t *testing.T) {
	const length = 20
	for first := range 256 {
		for _, second := range []byte{0, 1, 0x1f, ' ', '!', '"', '#', '[', '\\', ']', 0x7f, 0x80, 0x9f, 0xa0, 0xa2, 0xdc, 0xff} {
			for at := range length {
				text := bytes.Repeat([]byte{'x'}, length)
				text[at] = byte(first)
				if at+1 < length {
					text[at+1] = second
				}
				require.Equal(t, byteByByte(text), jsontext.Ordinary(text), "%q", text)
			}
		}
	}
	require.Zero(t, jsontext.Ordinary(nil))
}

func byteByByte(text []byte) int {
	for i, c := range text {
		if c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(text)
}
