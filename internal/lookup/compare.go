package lookup

import (
	"strconv"
	"strings"

	"github.com/onceward/onceward/providers"
)

// equal reports whether an object's value equals the wanted one. It returns false if either is empty, since an empty
// value is as good as a missing one.
func equal(as providers.Comparison, is, want string) bool {
	switch {
	case is == "" || want == "":
		return false
	case as == providers.AnyCase:
		return lower(is) == lower(want)
	case as == providers.AsDecimal:
		a, ok := decimalOf(is)
		b, okToo := decimalOf(want)
		return ok && okToo && a == b
	}
	return is == want
}

// lower puts ASCII letters in lower case, and no others, whose case depends on the language.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// decimal is a number, without zeros at either end of its digits: 0.digits times ten to the point.
type decimal struct {
	negative bool
	digits   string
	point    int
}

// decimalOf reads a decimal number as JSON has it. Leading zeros, and a plus sign, are no number's.
func decimalOf(text string) (d decimal, ok bool) {
	if len(text) > 64 {
		return d, false
	}
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa, exponent := text, ""
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa, exponent = text[:at], text[at+1:]
		n, err := strconv.Atoi(exponent)
		if err != nil || n < -64 || n > 64 {
			return d, false
		}
		d.point = n
	}
	whole, fraction, dotted := strings.Cut(mantissa, ".")
	if !digits(whole) || dotted && !digits(fraction) || len(whole) > 1 && whole[0] == '0' {
		return d, false
	}
	d.point += len(whole)
	all := whole + fraction
	d.digits = strings.TrimLeft(all, "0")
	d.point -= len(all) - len(d.digits)
	if d.digits = strings.TrimRight(d.digits, "0"); d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
