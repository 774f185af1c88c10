// Package words names the values of enumerations.
package words

import "fmt"

// Of returns the word of a value, which names has at its number. It returns the kind and the number of a value without
// one.
func Of[T ~uint8](kind string, names []string, value T) string {
	if int(value) < len(names) && names[value] != "" {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(value))
}
