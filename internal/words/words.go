// Package words names enumeration values, and joins statements about an operation.
package words

import (
	"fmt"
	"strings"
)

// Of returns a value's word, which names has at the value's number. It returns the kind and the number of a value
// without one.
func Of[T ~uint8](kind string, names []string, value T) string {
	if int(value) < len(names) && names[value] != "" {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(value))
}

// Because adds a reason to a cause, once.
func Because(cause, reason string) string {
	switch {
	case cause == "":
		return reason
	case strings.HasSuffix(cause, reason): // or there is none
		return cause
	}
	return cause + "; " + reason
}
