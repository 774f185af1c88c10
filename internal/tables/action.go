package tables

import (
	"net/url"
	"strings"

	"github.com/onceward/onceward/providers"
)

// answer is a condition's known result.
type answer uint8

const (
	no answer = iota
	yes
	unknown // until the body has been read
)

// asking is a message whose route is looked for. Parts that many endpoints need are read once.
type asking struct {
	Message
	read    bool
	request gqlRequest
	problem string
}

func (m *asking) graphQL() (r *gqlRequest, readable bool) {
	if !m.read {
		m.request, m.problem = readGraphQL(m.Message)
		m.read = true
	}
	return &m.request, m.problem == ""
}

// has reports whether a request with this message has the action.
func has(a *providers.Action, m *asking) answer {
	switch a.Place {
	case providers.ActionHeader:
		return is(allSay(lines(m.Header, a.Name), a.Value))
	case providers.ActionField:
		return inField(a, m.Message)
	case providers.ActionGraphQL:
		if m.Body == nil {
			return unknown
		}
		r, readable := m.graphQL()
		kind, field, named := strings.Cut(a.Value, " ")
		return is(readable && r.operation.kind == kind && (!named || r.operation.only() == field))
	}
	return yes
}

func is(condition bool) answer {
	if condition {
		return yes
	}
	return no
}

func allSay(values []string, want string) bool {
	for _, v := range values {
		if strings.TrimSpace(v) != want {
			return false
		}
	}
	return len(values) > 0
}

// inField reads the query parameter and the form field. All of them must have the action's value.
func inField(a *providers.Action, m Message) answer {
	said := valuesOf(m.Query, a.Name)
	switch {
	case !m.isForm():
	case m.Body == nil:
		return unknown
	case m.coded():
		return no
	default:
		said = append(said, valuesOf(string(m.Body), a.Name)...)
	}
	return is(allSay(said, a.Value))
}

func valuesOf(text, name string) (values []string) {
	for _, p := range pairs(text, name) {
		value, err := url.QueryUnescape(text[p.value.from:p.value.to])
		if err != nil {
			value = "\xff" // no table has such an action
		}
		values = append(values, value)
	}
	return values
}

// For returns the route of a request with the message m, if [Router.Route] left the route undecided. Among the
// endpoints of one pattern, For takes the first whose action the request has, and otherwise the endpoint without an
// action. If there is none, the request is under the unlisted contract, like a request whose path no pattern matches.
// But if the pattern tells GraphQL operations apart, such a request has an effect and takes no key. An unreadable
// GraphQL document has none of the actions.
//
// An endpoint with a [providers.KeyGraphQL] takes no key in some documents, and the returned Endpoint then has no key,
// no retention and no memory. Such a document lacks the argument (or, with OnlyIfThere, the key inside). Or the
// operation has several top-level fields or fragments at the top. Or the document is unreadable.
//
// As long as m.Body is nil, the route may stay undecided. Call For again once the body has been read. For is safe for
// concurrent use.
func (rt Route) For(m Message) Route {
	if !rt.Undecided {
		return rt
	}
	asked := &asking{Message: m}
	for _, l := range rt.choices {
		e := &l.Endpoint
		switch has(&e.Action, asked) {
		case no:
			continue
		case unknown:
			return rt
		}
		if e.Key.Place == providers.KeyGraphQL {
			if m.Body == nil {
				return rt
			}
			if !Key(e.Key).takenBy(asked) {
				l = l.keyless()
			}
		}
		return rt.decided(l, true)
	}
	for _, l := range rt.choices {
		if l.Action.Place == providers.ActionGraphQL {
			return rt.decided(&listed{Endpoint: providers.Endpoint{Pattern: l.Pattern, Source: sourceNoAction}}, true)
		}
	}
	return rt.decided(&unlisted, false)
}

const sourceNoAction = "the provider's table has neither this operation nor one for all others"

func (rt Route) decided(l *listed, byTable bool) Route {
	return Route{Provider: rt.Provider, Endpoint: &l.Endpoint, Listed: byTable, Effect: !l.NoEffect, at: l}
}

// takenBy reports whether the request's document has the argument.
func (k Key) takenBy(m *asking) bool {
	r, readable := m.graphQL()
	if !readable {
		return false
	}
	_, problem := r.find(k.Name)
	if problem == gqlNoArgument || problem == gqlSeveral {
		return false
	}
	if k.OnlyIfThere {
		_, there, err := k.carriedGraphQL(m.Message)
		return there || err != nil && !strings.HasSuffix(err.Error(), noParent)
	}
	return true
}

func (l *listed) keyless() *listed {
	without := *l
	without.form = ""
	without.Key, without.Retention, without.Remembers, without.InFlightGuard, without.HandlingTime = providers.Key{}, 0, providers.Nothing, false, 0
	return &without
}
