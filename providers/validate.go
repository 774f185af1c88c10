package providers

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// ValidationError is one contradiction in a [Provider].
type ValidationError struct {
	// Provider is the provider's name; empty if it has none.
	Provider string

	// Field is the place of the contradiction, like "Endpoints[0].Rules[2].Status".
	Field string

	// Problem describes the contradiction.
	Problem string
}

// Error returns the provider, the field and the problem.
func (e *ValidationError) Error() string {
	return fmt.Sprintf("providers: %q: %s: %s", e.Provider, e.Field, e.Problem)
}

func (p *Provider) invalid(field, format string, args ...any) error {
	return &ValidationError{Provider: p.Name, Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Validate returns the contradictions in the table: facts that exclude each other, rules that can never
// match, patterns that do not parse. The error joins one [*ValidationError] for each. A Source is optional.
func (p Provider) Validate() error {
	v := validation{provider: &p}
	v.check(p.Name == "", "Name", "it is empty")
	seen := map[string]bool{}
	for i, host := range p.Hosts {
		at := fmt.Sprintf("Hosts[%d]", i)
		if problem := checkHost(host); problem != "" {
			v.report(at, "%q: %s", host, problem)
		}
		v.check(seen[strings.ToLower(host)], at, "%q is there twice", host)
		seen[strings.ToLower(host)] = true
	}
	for i, name := range p.AccountHeaders {
		v.check(!token(name), fmt.Sprintf("AccountHeaders[%d]", i), "%q is not a header name", name)
	}
	v.modes()
	v.declines()
	for i, media := range p.Answers {
		if len(media) == 3 && media[0] == '2' && strings.Trim(media, "0123456789") == "" {
			continue // a status without a body
		}
		kind, sub, found := strings.Cut(media, "/")
		v.check(!found || !token(kind) || !token(sub) || media != strings.ToLower(media), fmt.Sprintf("Answers[%d]", i), "%q is neither a media type in lower case, without parameters, nor a 2xx status", media)
	}
	v.check(p.ReplayHeader != "" && !token(p.ReplayHeader), "ReplayHeader", "%q is not a header name", p.ReplayHeader)
	v.check(p.ReplayHeader == "" && p.ReplayValue != "", "ReplayValue", "there is no ReplayHeader to have it")
	v.check(len(p.Endpoints) == 0, "Endpoints", "there are none")

	mux := http.NewServeMux()
	patterns := map[string][]Action{}
	for i, e := range p.Endpoints {
		at := fmt.Sprintf("Endpoints[%d].", i)
		known := patterns[e.Pattern]
		patterns[e.Pattern] = append(known, e.Action)
		switch {
		case len(known) == 0:
			if err := register(mux, e.Pattern); err != nil {
				v.report(at+"Pattern", "%v", err)
			}
		case slices.Contains(known, e.Action):
			v.report(at+"Pattern", "%q is there twice with the same action", e.Pattern)
		}
		v.endpoint(at, e)
	}
	v.events()
	v.feed()
	v.listings()
	v.identity()
	return errors.Join(v.errs...)
}

type validation struct {
	provider *Provider
	under    string // begins the name of each reported field
	errs     []error
}

func (v *validation) report(field, format string, args ...any) {
	v.errs = append(v.errs, v.provider.invalid(v.under+field, format, args...))
}

func (v *validation) check(wrong bool, field, format string, args ...any) {
	if wrong {
		v.report(field, format, args...)
	}
}

func (v *validation) endpoint(at string, e Endpoint) {
	v.key(at+"Key.", e)
	v.action(at+"Action.", e.Action)
	keyed := e.Key.Place != KeyNone
	v.check(e.NoEffect && keyed, at+"NoEffect", "an endpoint without effect takes no key")
	v.check(e.NoEffect && len(e.Rules) > 0, at+"NoEffect", "an endpoint without effect takes no rules: its answers are handed over unread")
	v.check(e.Retention < 0, at+"Retention", "it has to be said, and longer than 0")
	v.check(e.Retention > 0 && !keyed, at+"Retention", "the endpoint takes no key that could be retained")
	v.check(e.Retention > 0 && keyed && e.Remembers == Nothing, at+"Retention", "nothing is remembered, so that there is nothing to retain")
	v.check(e.Declared != (Declared{}) && e.Retention <= 0, at+"Declared", "there is no retention that it could shorten")
	v.check(e.Declared.Header != "" && e.Declared.Field != "", at+"Declared", "it is a header or a field, not both")
	v.check(e.Declared.Header != "" && !token(e.Declared.Header), at+"Declared.Header", "%q is not a header's name", e.Declared.Header)
	v.check(e.Declared.Field != "" && !fieldPath(e.Declared.Field), at+"Declared.Field", "%q is not a dotted path", e.Declared.Field)
	v.check(!e.Remembers.Valid(), at+"Remembers", "%v is not one of the constants", e.Remembers)
	v.check(e.Remembers != Nothing && !keyed, at+"Remembers", "the endpoint takes no key to remember results under")
	v.check(e.InFlightGuard && !keyed, at+"InFlightGuard", "the endpoint takes no key to know a second request by")
	v.check(e.HandlingTime < 0, at+"HandlingTime", "it is negative")
	v.check(e.FetchPointer && !slices.ContainsFunc(e.Rules, func(r Rule) bool { return r.Verdict == AlreadyDone }), at+"FetchPointer", "no rule is AlreadyDone and names what to fetch")
	v.check(e.NoEffect && e.Idempotent, at+"Idempotent", "what has no effect is repeated anyway")
	v.check(e.RefusalsRegisterNoKey && !keyed, at+"RefusalsRegisterNoKey", "the endpoint takes no key to register")
	v.reconciles(at, e)
	v.check(tooManyFields(e.Rules), at+"Rules", "they ask for more than %d fields", maxFields)
	for i, path := range e.OmitFields {
		v.check(!fieldPath(path) || strings.Contains(path, "*"), fmt.Sprintf("%sOmitFields[%d]", at, i), "%q is not a dotted path", path)
	}
	for i, path := range e.SecretRequest {
		v.check(!fieldPath(path) || strings.ContainsAny(path, "[*"), fmt.Sprintf("%sSecretRequest[%d]", at, i), "%q is not a dotted path of names", path)
	}
	for i, path := range e.OpenRequest {
		field := fmt.Sprintf("%sOpenRequest[%d]", at, i)
		v.check(path != "*" && (!fieldPath(path) || strings.ContainsAny(path, "[*")), field, "%q is neither a dotted path of names nor \"*\"", path)
		v.check(secretField(e, path), field, "%q is among the secrets, which are never kept", path)
	}
	v.check(e.NoEffect && len(e.SecretRequest)+len(e.OpenRequest) > 0, at+"SecretRequest", "nothing is kept of a request without effect")
	for i, r := range e.Rules {
		field := fmt.Sprintf("%sRules[%d]", at, i)
		v.rule(field+".", r)
		v.check(v.contradictsReplay(r), field, "it can never match: an answer with the replay mark is read as one to a later attempt")
		if j := covering(e.Rules[:i], r); j >= 0 {
			v.report(field, "it can never match: Rules[%d] comes first and, alone or with those before it, matches all that it does", j)
		}
	}
}

func (v *validation) contradictsReplay(r Rule) bool {
	p := v.provider
	return FirstAttempt.covers(r.On) && r.Header != "" && strings.EqualFold(r.Header, p.ReplayHeader) &&
		(p.ReplayValue == "" || strings.EqualFold(r.Value, p.ReplayValue))
}

// covering returns the index of an earlier rule that matches all answers that r matches, or -1.
func covering(earlier []Rule, r Rule) int {
	if r.On != AnyAttempt {
		return slices.IndexFunc(earlier, func(e Rule) bool { return e.covers(r) })
	}
	first, later := r, r
	first.On, later.On = FirstAttempt, LaterAttempt
	f, l := covering(earlier, first), covering(earlier, later)
	if f < 0 || l < 0 {
		return -1
	}
	return max(f, l)
}

func (v *validation) key(at string, e Endpoint) {
	k := e.Key
	v.check(!k.Place.valid(), at+"Place", "%v is not one of the constants", k.Place)
	if k.Place == KeyNone {
		v.check(k != Key{}, at+"Place", "a key that goes nowhere has no other facts")
		return
	}
	switch k.Place {
	case KeyQuery, KeyFormField:
		v.check(k.Name == "", at+"Name", "it is empty")
	case KeyJSONField:
		v.check(!fieldPath(k.Name) || strings.ContainsAny(k.Name, "[*"), at+"Name", "%q is not a dotted path of names", k.Name)
	case KeyGraphQL:
		v.check(!gqlPath.MatchString(k.Name), at+"Name", "%q names no argument: write \"argument\", \"@directive.argument\" or \"argument.field\"", k.Name)
		v.check(e.Action.Place != ActionNone && e.Action.Place != ActionGraphQL, at+"Place", "the requests are told apart by another thing than their GraphQL operation")
		method, _, has := strings.Cut(e.Pattern, " ")
		v.check(has && method != http.MethodPost, at+"Place", "a GraphQL document travels in a POST, not in a %s", method)
	default:
		v.check(!token(k.Name), at+"Name", "%q is not a header name", k.Name)
	}
	inHeader := k.Place == KeyRawHeader || k.Place == KeyQuotedHeader
	v.check(k.OnlyIfThere && k.Place != KeyGraphQL, at+"OnlyIfThere", "it is for KeyGraphQL")
	v.check(k.FirstSent != "" && !token(k.FirstSent), at+"FirstSent", "%q is not a header name", k.FirstSent)
	v.check(k.FirstSent != "" && !inHeader, at+"FirstSent", "it travels with a key in a header only")
	v.check(k.FirstSent != "" && strings.EqualFold(k.FirstSent, k.Name), at+"FirstSent", "it is the header that carries the key")
	v.check(k.MinLength < 0, at+"MinLength", "it is negative")
	v.check(k.MaxLength < 0, at+"MaxLength", "it is negative")
	v.check(k.MaxLength > 0 && k.MaxLength < k.MinLength, at+"MaxLength", "it is less than MinLength")
	v.check(k.MaxLength > 0 && k.MaxLength < len(ourKey), at+"MaxLength", "a UUID, which operations without a key of their own get, has %d characters: describe an endpoint that takes none as one without a key", len(ourKey))
	v.check(k.MinLength > len(ourKey), at+"MinLength", "a UUID, which operations without a key of their own get, has %d characters only", len(ourKey))
	v.check(k.UUIDVersion < 0 || k.UUIDVersion > 8, at+"UUIDVersion", "it is none of RFC 9562's, 1 to 8")
	for i := range len(k.Alphabet) {
		if c := k.Alphabet[i]; c < ' ' || c > '~' {
			v.report(at+"Alphabet", "a key can't have every character of it: it is ASCII without control characters")
			break
		}
	}
	if k.Alphabet != "" && strings.Trim(ourKey, k.Alphabet) != "" {
		v.report(at+"Alphabet", "it lacks characters of a UUID in lower case, which operations without a key of their own get: 0-9, a-f and -")
	}
}

// ourKey has every character of the keys that are made here.
const ourKey = "01234567-89ab-4cde-8f01-23456789abcd"

func (v *validation) action(at string, a Action) {
	switch a.Place {
	case ActionNone:
		v.check(a != Action{}, at+"Place", "an action that stands nowhere has no other facts")
		return
	case ActionHeader:
		v.check(!token(a.Name), at+"Name", "%q is not a header name", a.Name)
		v.check(a.Value == "", at+"Value", "it is empty")
	case ActionField:
		v.check(a.Name == "", at+"Name", "it is empty")
		v.check(a.Value == "", at+"Value", "it is empty")
	case ActionGraphQL:
		v.check(a.Name != "", at+"Name", "a GraphQL operation stands in the document")
		kind, field, named := strings.Cut(a.Value, " ")
		v.check(kind != "query" && kind != "mutation" && kind != "subscription" || named && !gqlPath.MatchString(field) || strings.ContainsAny(field, ".@"),
			at+"Value", "%q is neither query, mutation or subscription nor one of them and the name of a field", a.Value)
	default:
		v.report(at+"Place", "%d is not one of the constants", a.Place)
	}
}

// gqlPath is a path of names, behind a directive if it has one.
var gqlPath = regexp.MustCompile(`^(@[A-Za-z_]\w*\.)?[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)

// maxFields is how many fields the rules of one endpoint may ask for.
const maxFields = 64

func tooManyFields(rules []Rule) bool {
	paths := map[string]bool{}
	for _, r := range rules {
		paths[r.Field], paths[r.Pointer] = true, true
	}
	delete(paths, "")
	return len(paths) > maxFields
}

// rule checks the rule at this place. Tables have hundreds of rules, so the name of a field is put together for a report alone.
func (v *validation) rule(at string, r Rule) {
	v.under = at
	defer func() { v.under = "" }()
	v.check(!r.Verdict.valid(), "Verdict", "there is none")
	v.check(r.Status != 0 && (r.Status < 200 || r.Status > 599), "Status", "%d is not a final status code", r.Status)
	v.check(r.Through != 0 && (r.Through < r.Status || r.Through > 599 || r.Status == 0), "Through", "%d to %d is not a range of status codes", r.Status, r.Through)
	v.check(r.Header != "" && !token(r.Header), "Header", "%q is not a header name", r.Header)
	v.check(r.Header == "" && r.Value != "", "Value", "there is no Header to have it")
	v.check(r.Field != "" && !fieldPath(r.Field), "Field", "%q is not a dotted path", r.Field)
	v.check(r.Without != "" && !fieldPath(r.Without), "Without", "%q is not a dotted path", r.Without)
	v.check(r.Without != "" && excludes(r.Field, r.Without), "Without", "it can never match: if %q is there, %q does not lead to nothing", r.Field, r.Without)
	v.check(r.Field == "" && r.Equals != "", "Equals", "there is no Field to have it")
	v.check(!r.On.valid(), "On", "%v is not one of the constants", r.On)
	v.check(r.Credential && r.Verdict != Rejected, "Credential", "only what is Rejected refuses a credential")
	if r.Verdict == AlreadyDone {
		v.check(!fieldPath(r.Pointer), "Pointer", "AlreadyDone needs the path of the field that names the resource")
	} else {
		v.check(r.Pointer != "", "Pointer", "only AlreadyDone names a resource")
	}
}

// register adds a pattern to mux. mux panics on an unreadable pattern and on a conflict.
func register(mux *http.ServeMux, pattern string) (err error) {
	_, path, found := strings.Cut(pattern, " ")
	if !found {
		path = pattern
	}
	if !strings.HasPrefix(strings.TrimLeft(path, " \t"), "/") {
		return fmt.Errorf("%q has no path, or a host in front of it", pattern)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// token reports whether s is a token, as a header name has to be (RFC 9110
// section 5.6.2).
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// fieldPath reports whether s is a dotted path without empty steps.
func fieldPath(s string) bool {
	for step := range strings.SplitSeq(s, ".") {
		if step = strings.TrimSuffix(step, "[]"); step == "" || strings.ContainsAny(step, "[] ") || step != "*" && strings.Contains(step, "*") {
			return false
		}
	}
	return true
}
