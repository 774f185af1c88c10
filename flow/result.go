package flow

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
)

// checkResult says why a step can't return values of a type, or returns "". Without the check, a type outside JSON would
// show only after the step's effect.
func checkResult(t reflect.Type) string {
	if known, ok := checkedResults.Load(t); ok {
		return known.(string)
	}
	reason := ""
	if t.Kind() == reflect.Interface {
		reason = "its result can't be recorded and read back: it is of an interface type, " + t.String() + ", and JSON does not tell what to make of it"
	} else if bad := unreadable(t, map[reflect.Type]bool{}); bad != nil {
		reason = "its result can't be recorded and read back: it holds a " + bad.String()
	}
	checkedResults.Store(t, reason)
	return reason
}

// checkedResults has what checkResult found, by type.
var checkedResults sync.Map

var (
	readsJSON = reflect.TypeFor[json.Unmarshaler]()
	readsText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// unreadable returns a type within t which encoding/json never decodes, or nil. An any may hold any value.
func unreadable(t reflect.Type, seen map[reflect.Type]bool) reflect.Type {
	if seen[t] || reflect.PointerTo(t).Implements(readsJSON) || reflect.PointerTo(t).Implements(readsText) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return t
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return t
		}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return unreadable(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if bad := unreadable(f.Type, seen); bad != nil {
				return bad
			}
		}
	}
	return nil
}

// takesNull reports whether null can stand for a type's value: a left-out result then loses nothing.
func takesNull(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return true
	case reflect.Struct:
		return t.NumField() == 0
	}
	return false
}

// decodeStrictly decodes JSON, if everything fits and nothing is left over.
func decodeStrictly(encoded []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if len(bytes.TrimRight(encoded[d.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("something follows it")
	}
	return nil
}
