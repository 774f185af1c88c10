package providers

import "fmt"

// Decline is a success whose body says that nothing took effect: a payment that was
// refused, and is answered by 200 all the same.
type Decline struct {
	// Field is a dotted path, as in a [Rule], to where the answer says so, and
	// Equals what it says there. The path has to lead there wherever it branches:
	// each element of an array has to say so, and a * stands for the only member
	// of its object, so that an effect beside a refusal is not overlooked.
	Field, Equals string

	// Source names where the fact comes from.
	Source string
}

func (v *validation) declines() {
	for i, d := range v.provider.Declines {
		at := fmt.Sprintf("Declines[%d].", i)
		v.check(!fieldPath(d.Field), at+"Field", "%q is not a dotted path", d.Field)
		v.check(d.Equals == "", at+"Equals", "it is empty: what else is there says nothing of a refusal")
	}
}
