package providertest

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/onceward/onceward/providers"
)

// saying returns an answer that the endpoint's own rules read as the verdict, if one can be made. saying follows the
// first possible rule. only, unless nil, restricts the rules.
func (c *call) saying(verdict providers.Verdict, later bool, only func(providers.Rule) bool) (Answer, bool) {
	for _, rule := range c.route.Endpoint.Rules {
		if rule.Verdict != verdict || only != nil && !only(rule) {
			continue
		}
		if a := c.example(rule); c.route.Classify(a.seen(later)).Verdict == verdict {
			return a, true
		}
	}
	return Answer{}, false
}

// example is an answer that meets a rule's conditions, in the provider's form.
func (c *call) example(rule providers.Rule) Answer {
	status := cmp.Or(rule.Status, http.StatusConflict)
	a := c.error(status, "this answer is made from the provider's rule: "+rule.Source)
	a.Status = status
	if rule.Header != "" {
		value := cmp.Or(rule.Value, "true")
		a.Header.Set(rule.Header, value)
	}
	if rule.Field != "" {
		value := cmp.Or(rule.Equals, "unspecified")
		a = c.with(a, rule.Field, value)
		if of, is := strings.CutSuffix(rule.Field, ".userErrors[].code"); is {
			a = c.with(a, of+".userErrors[].message", "this answer is made from the provider's rule")
		}
	}
	return a
}

// byStatus returns the answer for a status fault. If a rule recognises the status by a field in the body, the body has
// the field.
func (c *call) byStatus(f Fault) Answer {
	if strings.HasPrefix(f.header.Get("Content-Type"), "text/html") {
		a := page(f.status)
		maps.Copy(a.Header, f.header)
		return a
	}
	a := c.error(f.status, "this answer is a scripted fault")
	a.Status = f.status
	for _, rule := range c.route.Endpoint.Rules {
		if rule.Status == f.status && rule.Through == 0 && rule.Header == "" && rule.Field != "" {
			a = c.example(rule)
			break
		}
	}
	maps.Copy(a.Header, f.header)
	return a
}

// error is an error in the provider's form.
func (c *call) error(status int, detail string) Answer {
	if c.manner.Error == nil {
		return problem(status, detail)
	}
	return c.manner.Error(status, detail).clone()
}

// with returns the answer with a text at a rule's path in its JSON body.
func (c *call) with(a Answer, path, text string) Answer {
	var body any
	if strings.HasPrefix(a.Header.Get("Content-Type"), "application/problem+json") || json.Unmarshal(a.Body, &body) != nil {
		body = nil
		a.Header.Set("Content-Type", "application/json")
	}
	members, _ := put(body, strings.Split(path, "."), text, c.member).(map[string]any)
	a.Body = answerOf(a.Status, members).Body
	return a
}

// member returns the name of the first field in a GraphQL document, which the answer has too.
func (c *call) member() string {
	var request struct{ Query string }
	if json.Unmarshal(c.body, &request) == nil {
		if name := firstField(request.Query); name != "" {
			return name
		}
	}
	return "item"
}

func firstField(document string) string {
	depth := 0
	for i := 0; i < len(document); i++ {
		switch document[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '"':
			for i++; i < len(document) && document[i] != '"'; i++ {
				if document[i] == '\\' {
					i++
				}
			}
		case '#':
			for i < len(document) && document[i] != '\n' {
				i++
			}
		case '{':
			if depth == 0 {
				rest := strings.TrimLeft(document[i+1:], " \t\r\n,")
				end := strings.IndexFunc(rest, func(r rune) bool {
					return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
				})
				return rest[:max(end, 0)]
			}
		}
	}
	return ""
}
