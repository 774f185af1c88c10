package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outputs has the type that each verb prints under -o json. Under -o jsonl a list has a line for each of its entries,
// of their type. Any other output is one line.
var outputs = map[string]any{
	"ls": operations{}, "attention": attention{}, "close": closed{}, "show": detail{}, "why": reasons{},
	"flows": flows{}, "flow": flowDetail{}, "flow-retry": flowDetail{}, "flow-give-up": flowDetail{},
	"receipts": receipts{}, "receipt": receiptDetail{}, "receipt-resolve": receiptDetail{},
	"stats": stats{}, "resolve": detail{}, "cancel": detail{},
	"verify": verified{}, "backup": copied{}, "adopt": adopted{}, "export": journal.Archived{}, "reap": reaped{}, "seal-status": sealStatus{},
	"doctor": examination{}, "providers-ls": contracts{}, "providers-show": contract{}, "providers-explain": explained{},
	"compare": comparison{}, "version": build{}, "ui": served{},
}

// schema is a JSON Schema (https://json-schema.org/draft/2020-12/schema).
type schema map[string]any

// Command.schema.json in the documents is the schema of all outputs.
func TestDocumentSchema(t *testing.T) {
	const file = "../../docs/command.schema.json"
	text, err := json.MarshalIndent(schemaOfAll(), "", "  ")
	require.NoError(t, err)
	text = append(text, '\n')
	if *update {
		require.NoError(t, os.WriteFile(file, text, 0o644))
	}
	stands, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(stands), string(text), "written anew by: go generate ./docs")
}

// schemaOfAll returns the schema for all outputs: an output's is that of the property with its verb's name.
func schemaOfAll() schema {
	of, defs := schema{}, schema{}
	for verb, out := range outputs {
		of[verb] = schemaOf(reflect.TypeOf(out), defs)
	}
	return schema{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "onceward",
		"description": "what each verb prints under -o json: the property with the verb's name describes it; more names may be added", "properties": of, "$defs": defs}
}

// schemaOf returns the schema of a type's JSON, and adds those of structs to defs. It allows further names, since later
// releases may add some.
func schemaOf(t reflect.Type, defs schema) schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return schema{"type": "string", "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), defs)
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Slice:
		return schema{"type": "array", "items": schemaOf(t.Elem(), defs)}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": schemaOf(t.Elem(), defs)}
	case reflect.Struct:
		name := strings.TrimPrefix(t.String(), "main.")
		if defs[name] == nil {
			properties, required := schema{}, []string{}
			defs[name] = schema{"type": "object", "properties": properties}
			fieldsOf(t, properties, &required, defs)
			if len(required) > 0 {
				defs[name].(schema)["required"] = required
			}
		}
		return schema{"$ref": "#/$defs/" + name}
	}
	return schema{"type": "integer"}
}

func fieldsOf(t reflect.Type, properties schema, required *[]string, defs schema) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			fieldsOf(f.Type, properties, required, defs)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		s := schemaOf(f.Type, defs)
		if doc := f.Tag.Get("doc"); doc != "" {
			s["description"] = doc
		}
		properties[name] = s
		if options == "" {
			*required = append(*required, name)
		}
	}
}
