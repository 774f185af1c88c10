package providers_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

// fact is one value in a table.
type fact struct {
	name  string // the fields that lead to it: "Endpoints.Rules.Verdict"
	value reflect.Value
}

// factsOf lists the values in a table. The values can be set.
func factsOf(p *providers.Provider) (facts []fact) {
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."), v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(name, v.Index(i))
			}
		default:
			if !v.IsZero() {
				facts = append(facts, fact{name, v})
			}
		}
	}
	walk("", reflect.ValueOf(p).Elem())
	return facts
}

// change gives a fact another value.
func (f fact) change() {
	switch v := f.value; v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Uint8:
		v.SetUint(v.Uint()%3 + 1)
	default:
		v.SetInt(2 * v.Int())
	}
}

// A page is the record of its table: a change of any fact changes the page. The page without the hiccups stands for the
// table here.
func TestEveryFactIsOnItsPage(t *testing.T) {
	t.Parallel()
	seen := []string{"Name"} // the name of the page
	for i, p := range adapters() {
		before := page(t, p, "X()", "")
		for j, f := range factsOf(&p) {
			if slices.Contains(seen, f.name) {
				continue
			}
			seen = append(seen, f.name)
			changed := adapters()[i]
			factsOf(&changed)[j].change()
			assert.True(t, before != page(t, changed, "X()", ""), "the page of %s does not show %s, %v", p.Name, f.name, f.value)
		}
	}
	for _, name := range []string{"Endpoints.Key.MaxLength", "Endpoints.Rules.Verdict", "Endpoints.Lookups.Same.Field", "Events.Is", "Endpoints.Source"} {
		assert.Contains(t, seen, name)
	}
}

// A changed fact changes one line of its page.
func TestAChangedFactIsOneLine(t *testing.T) {
	t.Parallel()
	// each changes every endpoint, as an adapter shares a fact among its endpoints.
	each := func(change func(e *providers.Endpoint)) func(p *providers.Provider) {
		return func(p *providers.Provider) {
			for i := range p.Endpoints {
				change(&p.Endpoints[i])
			}
		}
	}
	for name, change := range map[string]func(p *providers.Provider){
		"a host":                func(p *providers.Provider) { p.Hosts[0] = "api.example.org" },
		"a mark of a replay":    func(p *providers.Provider) { p.ReplayValue = "yes" },
		"a path of the account": func(p *providers.Provider) { p.Identity.Path += "s" },
		"the length of a key": each(func(e *providers.Endpoint) {
			if e.InFlightGuard {
				e.Key.MaxLength = 128
			}
		}),
		"a verdict": each(func(e *providers.Endpoint) {
			for i := range e.Rules {
				if e.Rules[i].Status == 424 {
					e.Rules[i].Verdict = providers.Final
				}
			}
		}),
		"a source": each(func(e *providers.Endpoint) {
			for i := range e.Rules {
				e.Rules[i].Source = strings.ReplaceAll(e.Rules[i].Source, "the limiter runs before", "the limiter runs after")
			}
		}),
		"a state of an object": each(func(e *providers.Endpoint) {
			for i := range e.Lookups {
				if means := e.Lookups[i].Means; means[0].Equals == "draft" {
					means[0].Is = providers.InProgress
				}
			}
		}),
		"a field of an event": func(p *providers.Provider) {
			for i := range p.Events {
				if p.Events[i].Equals == "transfer.reversed" {
					p.Events[i].Also[0].Field += "s"
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := providers.Stripe()
			before := page(t, p, "Stripe()", "")
			change(&p)
			gone, added := changedLines(before, page(t, p, "Stripe()", ""))
			assert.Len(t, gone, 1)
			assert.Len(t, added, 1)
		})
	}
}
