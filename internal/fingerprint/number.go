package fingerprint

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// maxPlainInteger is the most digits that a natural number in its own canonical form can have. Any number of 15 digits
// is below 2^53, up to which a float64 holds every integer.
const maxPlainInteger = 15

// canonicalNumber returns a JSON number in RFC 8785's form, and whether that is the same number. It is not if a
// float64 holds only a near value: 9007199254740993, or 0.1000000000000000055, which would read as 0.1. Two numbers
// that are each the same as their canonical form thus never share one unless they are equal.
func canonicalNumber(token string) (canonical string, same bool) {
	value, err := strconv.ParseFloat(token, 64)
	if err != nil {
		return "", false
	}
	canonical, err = jcs.NumberToJSON(value)
	if err != nil {
		return "", false
	}
	var was, is [32]byte
	return canonical, bytes.Equal(appendDecimal(was[:0], token), appendDecimal(is[:0], canonical))
}

// appendDecimal appends a JSON number in a form that is the same for equal numbers only. The parts are the sign, the
// digits without surrounding zeros, and the last digit's power of ten.
func appendDecimal(out []byte, token string) []byte {
	from := len(out)
	if token[0] == '-' {
		out = append(out, '-')
		token = token[1:]
	}
	mantissa, power, scientific := strings.Cut(strings.ToLower(token), "e")
	var exponent int64
	if scientific {
		// Out of range, the exponent is as good as infinite: no canonical form has so large a power, and the number's
		// own digits don't count beside the exponent.
		exponent, _ = strconv.ParseInt(power, 10, 64)
		exponent = min(max(exponent, -1<<40), 1<<40)
	}
	digits := len(out)
	fraction := false
	for _, c := range []byte(mantissa) {
		if c == '.' {
			fraction = true
			continue
		}
		if fraction {
			exponent--
		}
		if c != '0' || len(out) > digits {
			out = append(out, c)
		}
	}
	for len(out) > digits && out[len(out)-1] == '0' {
		out = out[:len(out)-1]
		exponent++
	}
	if len(out) == digits {
		return out[:from]
	}
	out = append(out, 'e')
	return strconv.AppendInt(out, exponent, 10)
}
