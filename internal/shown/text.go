package shown

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Text quotes characters that a terminal or a reader could take for something else. Text quotes control characters,
// including C1's, marks that turn the direction of writing, unprintable characters, and bytes that are no UTF-8. Text
// doubles a backslash, so a reader can tell a quoted character from a text that looks alike.
func Text(s string) string {
	if strings.IndexFunc(s, quotes) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\\':
			b.WriteString(`\\`)
		case !quotes(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

func quotes(r rune) bool { return r == '\\' || !strconv.IsPrint(r) }

// Short returns Text within a number of characters. If Short cuts, the last character shows the cut.
func Short(s string, most int) string { return Clip(Text(s), most) }

// Clip shortens a text that is quoted already to a number of characters.
func Clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Key returns a shortened key: the first 8 bytes, and never more than half the key.
func Key(key string) string {
	if key == "" {
		return ""
	}
	return Text(naming.Short(key))
}

// ID returns an operation's name or, without a name, the shortened key.
func ID(op *journal.Operation) string {
	if op.Naming != journal.Named {
		return Key(op.ID)
	}
	return Text(op.ID)
}

// Parent returns an operation's parent: a flow by its name, else a shortened key. It returns "" if no caller has
// named a parent.
func Parent(op *journal.Operation) (kind, name string) {
	flow, isFlow := seam.FlowOf(op.Parent)
	switch {
	case op.Parent == "" || op.Naming != journal.Named:
		return "", ""
	case op.Flow.ID != "":
		return "flow", fmt.Sprintf("%s #%d", Text(op.Flow.ID), op.Flow.Handle)
	case isFlow:
		return "flow", Text(flow)
	}
	at := strings.LastIndexByte(op.Parent, ' ')
	return "parent", Text(op.Parent[:at+1]) + Key(op.Parent[at+1:])
}

// Duration returns a duration as people say durations, in the largest one or two units.
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(-max(d, -math.MaxInt64)) // the least duration has no opposite
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < day && d%time.Hour < time.Minute:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d%day < time.Hour:
		return fmt.Sprintf("%d d", d/day)
	}
	return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
}

// Bytes returns a size as people say it.
func Bytes(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}

// InboundKey returns the key of the inbound request with this parent, or "" if there is none. The key is shortened
// unless whole is set.
func InboundKey(parent string, whole bool) string {
	key := seam.InboundKey(parent)
	if whole {
		return Text(key)
	}
	return Key(key)
}

// Steps selects a flow's operations, by the flow's name or a handle such as #12, or the operations below an
// inbound key. "" selects all.
type Steps struct{ Flow, InboundKey string }

// Has reports whether the operation is one of them.
func (s Steps) Has(op *journal.Operation) bool {
	return (s.Flow == "" || s.ofFlow(op)) && (s.InboundKey == "" || s.InboundKey == seam.InboundKeyOf(op))
}

func (s Steps) ofFlow(op *journal.Operation) bool {
	name, isFlow := seam.FlowOf(op.Parent)
	return op.Flow.ID == s.Flow || isFlow && name == s.Flow || op.Flow.Handle > 0 && s.Flow == fmt.Sprint("#", op.Flow.Handle)
}
