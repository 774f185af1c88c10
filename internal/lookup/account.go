package lookup

import (
	"net/http"
	"strings"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/template"
	"github.com/onceward/onceward/providers"
)

// Identify returns the request for the operation credential's account, or nil if the provider cannot be asked.
// [Account] reads the response.
func Identify(p *providers.Provider, e *providers.Endpoint, about *Subject) (*http.Request, error) {
	if p.Identity.Path == "" {
		return nil, nil
	}
	path, query, _ := strings.Cut(p.Identity.Path, "?")
	expanded, err := template.Expand(path, template.Path, func(string) (string, bool) { return "", false })
	if err != nil {
		return nil, &PassedOver{reason(err)}
	}
	return newRequest(e, about, http.MethodGet, PathOf(about.URL, expanded), query, "")
}

// Account reads the answer to [Identify]'s request: the account, or why it does not tell.
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
