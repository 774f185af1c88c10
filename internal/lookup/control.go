package lookup

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/template"
	"github.com/onceward/onceward/providers"
)

// Controls reports whether an operation that is known to have taken effect can serve as a canary for another one of
// the same endpoint and account. It must have been first sent when no server could work on the other's last attempt
// any more. The look-up must read the same list for both, and identify both by the same fields.
//
// If the look-up finds the canary's object within the other's window, then the credential, the permission, the filter
// and the paging are right, and the provider's index has come that far.
func Controls(p *providers.Provider, e *providers.Endpoint, look *providers.Lookup, control, other *Subject) bool {
	otherAccount := func(name string) bool {
		return strings.Join(control.Header.Values(name), ",") != strings.Join(other.Header.Values(name), ",")
	}
	otherList := func(name string) bool {
		return (strings.HasPrefix(name, "path.") || strings.HasPrefix(name, "request.")) && control.Values[name] != other.Values[name]
	}
	return e.Object != "" && control.Object != "" && e.HandlingTime > 0 && control.First.After(other.Last.Add(e.HandlingTime)) &&
		sameHost(control.URL, other.URL) && control.Account == other.Account && !slices.ContainsFunc(p.AccountHeaders, otherAccount) &&
		!slices.ContainsFunc(asks(look), otherList) && exact(look, control) == exact(look, other)
}

func sameHost(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// margin is the least time that is waited beyond the stated times before an absence is believed.
const margin = 15 * time.Minute

// Provable returns the time from which a look-up that finds nothing can prove that an operation had no effect. By
// then its last attempt is certainly over, and an object that it made would be visible. Conditions other than time
// are not checked. own is the margin for clocks in the operation's own terms.
//
// It returns the zero time if no wait is long enough: the table states no handling time, or not when objects become
// visible.
func Provable(e *providers.Endpoint, look *providers.Lookup, last time.Time, own time.Duration) time.Time {
	if e.HandlingTime <= 0 || !look.Absent.Consistent && look.Absent.VisibleAfter <= 0 {
		return time.Time{}
	}
	return last.Add(e.HandlingTime + look.Absent.VisibleAfter + max(own, margin))
}

// Identify returns the request that asks the provider for the account of the operation's credential, or nil if the
// provider cannot be asked. [Account] reads its response.
func Identify(p *providers.Provider, e *providers.Endpoint, about *Subject) (*http.Request, error) {
	if p.Identity.Path == "" {
		return nil, nil
	}
	path, query, _ := strings.Cut(p.Identity.Path, "?")
	expanded, err := template.Expand(path, template.Path, func(string) (string, bool) { return "", false })
	if err != nil {
		return nil, &PassedOver{reason(err)}
	}
	return newRequest(e, about, http.MethodGet, expanded, query, "", acceptJSON)
}

// Account reads the answer of [Identify]'s request: the account, or why it does not tell.
func Account(p *providers.Provider, status int, header http.Header, body []byte) (account, why string) {
	if why := answerUnfit(p, status, header, body, p.Identity.Needs); why != "" {
		return "", "the credential's account could not be read: " + why
	}
	if _, problem := tables.Items(header, body, ""); problem != "" {
		return "", "the credential's account could not be read: " + problem
	}
	account, ok := tables.NewFields(p.Identity.Field).Read(body).Only(p.Identity.Field)
	if p.Identity.Last {
		account = account[strings.LastIndexByte(account, '/')+1:]
	}
	if !ok || account == "" {
		return "", "the credential's account could not be read: the answer has no one text at " + p.Identity.Field
	}
	return account, ""
}
