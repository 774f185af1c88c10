package providers

import "strings"

// Amount says where a request names the moved money. The zero Amount means that the table does not say. Package
// compare reads the Amount.
type Amount struct {
	// Value and Currency are the fields with the amount and the currency: dotted paths in a JSON body, or form field
	// names. An empty Currency means that the request names none, and the object's currency counts: a refund has the
	// payment's currency.
	Value, Currency string

	// Decimal says that Value is a decimal number, such as 20.00. Otherwise Value is a whole number in the currency's
	// smallest unit.
	Decimal bool

	// Source is the source of the facts.
	Source string
}

func (v *validation) amount(at string, a Amount) {
	if a == (Amount{}) {
		return
	}
	v.check(!amountPath(a.Value), at+"Value", "%q is not the path of a field", a.Value)
	v.check(a.Currency != "" && !amountPath(a.Currency), at+"Currency", "%q is not the path of a field", a.Currency)
}

func amountPath(path string) bool { return fieldPath(path) && !strings.ContainsAny(path, "[*") }
