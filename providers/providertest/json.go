package providertest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// steps splits a path into its names.
func steps(path string) []string { return strings.Split(path, ".") }

// put returns the JSON value with a value at a path of steps like "error", "errors[]" or "*". Missing
// containers are added, and member returns the name for a "*".
func put(v any, steps []string, value any, member func() string) any {
	if len(steps) == 0 {
		return value
	}
	name, array := strings.CutSuffix(steps[0], "[]")
	if name == "*" {
		name = member()
	}
	members, is := v.(map[string]any)
	if !is {
		members = map[string]any{}
	}
	if !array {
		members[name] = put(members[name], steps[1:], value, member)
		return members
	}
	list, _ := members[name].([]any)
	if len(list) == 0 {
		list = []any{nil}
	}
	list[0] = put(list[0], steps[1:], value, member)
	members[name] = list
	return members
}

// parsed is a JSON body with its numbers as they are written.
func parsed(body []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, false
	}
	switch v.(type) {
	case map[string]any, []any:
		return v, true
	}
	return nil, false
}

// scalars are the texts, numbers and booleans at a path of steps.
func scalars(v any, steps []string) (found []any) {
	if len(steps) == 0 {
		switch v.(type) {
		case string, json.Number, bool, int, int64:
			return []any{v}
		}
		return nil
	}
	name, array := strings.CutSuffix(steps[0], "[]")
	members, is := v.(map[string]any)
	if !is {
		return nil
	}
	names := []string{name}
	if name == "*" {
		names = slices.Sorted(maps.Keys(members))
	}
	for _, name := range names {
		if !array {
			found = append(found, scalars(members[name], steps[1:])...)
			continue
		}
		list, _ := members[name].([]any)
		for _, element := range list {
			found = append(found, scalars(element, steps[1:])...)
		}
	}
	return found
}

// itself is the name of a member that a path leaves open.
func itself() string { return "item" }

// nested returns an object within the container that the id's path names: under "data.object" for "data.object.id".
func nested(shown map[string]any, id string) any {
	at := steps(id)
	if len(at) < 2 {
		return shown
	}
	return put(nil, at[:len(at)-1], shown, itself)
}
