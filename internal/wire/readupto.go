package wire

import "io"

const (
	firstRead  = 511       // where no length is announced
	mostAtOnce = 256 << 10 // of what is announced and not there yet
	maxIdle    = 100       // reads in a row that give nothing
)

// ReadUpTo reads a body to the end or one byte past limit, whichever comes first. expected is the announced length, or
// less than 1 if no length was announced. At most 256 KiB of an announced length is set aside before its bytes arrive.
func ReadUpTo(body io.Reader, limit, expected int64) ([]byte, error) {
	if expected < 1 {
		expected = firstRead
	}
	buf := make([]byte, 0, min(expected, limit, mostAtOnce)+1) // room to see the end
	for idle := 0; ; {
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if idle++; n > 0 {
			idle = 0
		}
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil || int64(len(buf)) > limit:
			return buf, err
		case idle == maxIdle:
			return buf, io.ErrNoProgress
		case len(buf) == cap(buf):
			// No sum of these is more than limit+1, which may be more than an int64 holds.
			more := min(int64(cap(buf)), limit-int64(cap(buf))+1)
			buf = append(make([]byte, 0, int64(cap(buf))+more), buf...)
		}
	}
}
