package rows

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// render puts arguments into a statement's places, each a question mark. No statement has a question mark elsewhere. On
// the application's connections, bytes are in hexadecimal, whose meaning no setting changes. On the journal's own
// connections, bytes are escaped, which takes less room.
func render(text string, own bool, args []any) string {
	if len(args) == 0 {
		return text
	}
	size := len(text)
	for _, arg := range args {
		size += 24
		if b, is := arg.([]byte); is {
			size += len(b) + len(b)/8
		}
	}
	var out strings.Builder
	out.Grow(size)
	for _, arg := range args {
		before, after, _ := strings.Cut(text, "?")
		out.WriteString(before)
		literal(&out, own, arg)
		text = after
	}
	out.WriteString(text)
	return out.String()
}

func literal(out *strings.Builder, own bool, arg any) {
	switch v := arg.(type) {
	case nil:
		out.WriteString("NULL")
	case int64:
		out.WriteString(strconv.FormatInt(v, 10))
	case int:
		out.WriteString(strconv.Itoa(v))
	case uint8:
		out.WriteString(strconv.Itoa(int(v)))
	case bool:
		if v {
			out.WriteByte('1')
		} else {
			out.WriteByte('0')
		}
	case string:
		literalBytes(out, own, []byte(v))
	case []byte:
		if v == nil {
			out.WriteString("NULL")
		} else {
			literalBytes(out, own, v)
		}
	default:
		panic("rows: an argument of an unknown type")
	}
}

var escapes = strings.NewReplacer("\x00", `\0`, `'`, `\'`, `\`, `\\`, "\x1a", `\Z`)

func literalBytes(out *strings.Builder, own bool, b []byte) {
	if !own {
		out.WriteString("x'")
		out.WriteString(hex.EncodeToString(b))
		out.WriteByte('\'')
		return
	}
	out.WriteString("_binary'")
	_, _ = escapes.WriteString(out, string(b))
	out.WriteByte('\'')
}

// places returns n question marks in parentheses.
func places(n int) string { return "(" + strings.TrimSuffix(strings.Repeat("?,", n), ",") + ")" }

// anys returns values as arguments.
func anys[T any](values []T) []any {
	all := make([]any, len(values))
	for i := range values {
		all[i] = values[i]
	}
	return all
}

// orNull returns v, or nil unless is.
func orNull(is bool, v any) any {
	if is {
		return v
	}
	return nil
}
