package main

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// outputs has the type that each verb prints under -o json. Under -o jsonl a list has a line for each of its entries,
// of their type. Any other output is one line.
var outputs = map[string]any{
	"ls": operations{}, "attention": attention{}, "looks": looks{}, "show": detail{}, "why": reasons{},
	"flows": flows{}, "flow": flowDetail{}, "flow-retry": flowDetail{}, "flow-give-up": flowDetail{},
	"receipts": receipts{}, "receipt": receiptDetail{}, "receipt-resolve": receiptDetail{},
	"stats": stats{}, "top": stats{}, "resolve": detail{}, "cancel": detail{},
	"verify": verified{}, "backup": copied{}, "adopt": adopted{}, "export": journal.Archived{}, "reap": reaped{},
	"doctor": examination{}, "providers-ls": contracts{}, "providers-show": contract{}, "providers-explain": explained{},
	"version": build{}, "ui": served{},
}

// schema is a JSON Schema (https://json-schema.org/draft/2020-12/schema).
type schema map[string]any

func (s schema) table(t *table) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return
	}
	t.line(string(text))
}

func (c *command) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema [VERB]", Short: "Print the JSON Schema of what a verb prints under -o json, or of all of them",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("schema takes one verb, or none; a verb of two words has a dash: flow-retry")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.say(schemaOfAll())
			}
			out, known := outputs[args[0]]
			if !known {
				return notFound("there is no output of %s; there are %s", shown.Text(args[0]), strings.Join(slices.Sorted(maps.Keys(outputs)), ", "))
			}
			s := schemaOf(reflect.TypeOf(out))
			s["$schema"], s["title"] = draft, "onceward "+args[0]
			return c.say(s)
		},
	}
}

const draft = "https://json-schema.org/draft/2020-12/schema"

func schemaOfAll() schema {
	all := schema{}
	for name, out := range outputs {
		all[name] = schemaOf(reflect.TypeOf(out))
	}
	return schema{"$schema": draft, "title": "onceward", "description": "what each verb prints under -o json; more names may be added", "$defs": all}
}

// schemaOf returns the schema of a type's JSON. It allows further names, since later releases may add some.
func schemaOf(t reflect.Type) schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return schema{"type": "string", "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Slice:
		return schema{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		properties, required := schema{}, []string{}
		fieldsOf(t, properties, &required)
		return schema{"type": "object", "properties": properties, "required": required}
	}
	return schema{"type": "integer"}
}

func fieldsOf(t reflect.Type, properties schema, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			fieldsOf(f.Type, properties, required)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		s := schemaOf(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			s["description"] = doc
		}
		properties[name] = s
		if options == "" {
			*required = append(*required, name)
		}
	}
}
