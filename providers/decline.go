package providers

import "fmt"

// Decline is a success whose body says that nothing took effect, such as a 200 for a refused payment.
type Decline struct {
	// Field is a dotted path, as in a [Rule], and Equals is the text there that means a refusal. All branches on the
	// path must have the value: each array element, and for a * the object's only member. An effect beside a refusal is
	// therefore never overlooked.
	Field, Equals string

	// Source is the source of the fact.
	Source string
}

func (v *validation) declines() {
	for i, d := range v.provider.Declines {
		at := fmt.Sprintf("Declines[%d].", i)
		v.check(!fieldPath(d.Field), at+"Field", "%q is not a dotted path", d.Field)
		v.check(d.Equals == "", at+"Equals", "it is empty: what else is there says nothing of a refusal")
	}
}
