package onceward

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/tables"
)

// Of requests for tokens two things are asked. Whether one is a secret: then neither
// its body nor its answer is kept, and in doubt it is one. And whether one is without
// effect, so that it passes: nothing that a request says of itself has a named or
// keyed one pass, since then whoever adds a field to a charge would have it sent
// unrecorded.

// exchangesSecrets tells whether a request carries a credential in its body and gets
// one in its answer, by whatever a server may read it for: a request for a token
// (RFC 6749 section 4, RFC 8693, WS-Trust 1.3 section 3.1), its revocation or
// introspection (RFC 7009, RFC 7662), a pushed authorization (RFC 9126), or credentials
// of AWS. How the body announces itself does not matter, and neither does whether it is
// well-formed. A request for a token is found at any depth of JSON and XML.
func exchangesSecrets(m tables.Message) bool {
	var f fields
	f.readBody(m)
	if f.has("token") && !f.others {
		return true
	}
	if nestsTokenRequest(m.Body) {
		return true
	}
	f.readPairs(m.Query)
	switch {
	case f.has("grant_type"), f.has("granttype"), f.has("clientid") && f.has("clientsecret"):
		return true
	case f.has("client_id"):
		return slices.ContainsFunc(clientFields, f.has)
	}
	return f.has("Version") && slices.ContainsFunc(awsCredentials, func(action string) bool { return f.has("Action=" + action) })
}

// clientFields make a client's own request to an authorization server of one with a
// client_id: how it shows who it is, or what it would have authorized (RFC 6749
// section 4.1.1, RFC 9101).
var clientFields = []string{"client_secret", "client_assertion", "response_type", "request"}

// revocationFields are those of a revocation or an introspection (RFC 7009 section
// 2.1, RFC 7662 section 2.1), and of how its client shows who it is (RFC 6749 section
// 2.3.1, RFC 7521 section 4.2).
var revocationFields = []string{"token", "token_type_hint", "client_id", "client_secret", "client_assertion", "client_assertion_type"}

// awsCredentials are the actions of AWS's query protocol whose answers are
// credentials (docs.aws.amazon.com/STS/latest/APIReference and /IAM/latest/APIReference [D]).
var awsCredentials = []string{
	"AssumeRole", "AssumeRoleWithSAML", "AssumeRoleWithWebIdentity", "AssumeRoot", "GetFederationToken", "GetSessionToken",
	"CreateAccessKey", "CreateServiceSpecificCredential", "ResetServiceSpecificCredential",
}

// passesForAToken tells whether a call without a name is a token request that is no
// operation's: without a key, tidy, and at a host and path that no contract names.
func (k *call) passesForAToken(m tables.Message, isCarried bool) bool {
	named := k.route.Listed && len(k.route.Provider.Hosts) > 0
	return !named && !k.name.named && !isCarried && isTidyTokenRequest(k.req.Method, m)
}

// isTidyTokenRequest tells a request for a token that can't be anything else: a POST
// of a well-formed form, or object in JSON, that has grant_type and nothing that
// token endpoints are not sent, each once.
func isTidyTokenRequest(method string, m tables.Message) bool {
	types := m.Header.Values("Content-Type")
	if method != http.MethodPost || len(m.Body) > maxTokenRequest || len(types) != 1 || m.Header.Get("Content-Encoding") != "" || m.Query != "" {
		return false
	}
	media, _, err := mime.ParseMediaType(types[0])
	if err != nil {
		return false
	}
	var grant string
	switch media {
	case "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(m.Body))
		if err != nil {
			return false
		}
		for name, values := range form {
			if len(values) != 1 || !slices.Contains(tokenFields, name) {
				return false
			}
		}
		grant = form.Get("grant_type")
	case "application/json":
		members, ok := textMembers(m.Body)
		if !ok {
			return false
		}
		for name := range members {
			if !slices.Contains(tokenFields, name) {
				return false
			}
		}
		grant = members["grant_type"]
	}
	return grant != ""
}

// maxTokenRequest is more than any has, in bytes: an assertion of the largest kind.
const maxTokenRequest = 256 << 10

// tokenFields are the parameters of a token request that IANA's registry of OAuth
// parameters has, and audience and organization, which Auth0 takes.
var tokenFields = []string{
	"grant_type", "code", "redirect_uri", "client_id", "client_secret", "client_assertion", "client_assertion_type", "scope",
	"username", "password", "refresh_token", "assertion", "code_verifier", "device_code", "auth_req_id", "resource", "audience",
	"subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type", "organization",
}

// fields are what is looked for among a message's fields, however many it has: by name,
// or by name and value.
type fields struct {
	found  []string
	others bool // there are some that a revocation does not have
}

func (f *fields) has(name string) bool { return slices.Contains(f.found, name) }

func (f *fields) add(name, value string) {
	if name != "Action" && name != "Version" {
		name = strings.ToLower(name) // as lenient servers read it
	}
	f.others = f.others || !slices.Contains(revocationFields, name)
	if name == "Action" {
		name += "=" + value
		if !slices.ContainsFunc(awsCredentials, func(action string) bool { return name == "Action="+action }) {
			return
		}
	} else if !slices.Contains(tellingFields, name) {
		return
	}
	if !f.has(name) {
		f.found = append(f.found, name)
	}
}

// tellingFields are the names that exchangesSecrets asks for.
var tellingFields = []string{
	"grant_type", "granttype", "token", "client_id", "clientid", "clientsecret", "client_secret", "client_assertion",
	"response_type", "request", "Version",
}

// readBody adds a body's as a lenient server may find them: as JSON where it looks like
// that, by its parts where it has some, else as a form.
func (f *fields) readBody(m tables.Message) {
	body := bytes.TrimLeft(m.Body, " \t\r\n\ufeff")
	if boundary := boundaryOf(m.Header, body); boundary != "" {
		f.readParts(body, boundary)
		return
	}
	if !bytes.HasPrefix(body, []byte("{")) {
		f.readPairs(string(body))
		return
	}
	if mayTell(body) && !eachMember(body, func(name string, _ json.RawMessage) bool { f.add(name, ""); return true }) {
		f.addLooks(body)
	}
}

// telling are the names that begin to tell something, in lower case.
var telling = [][]byte{
	[]byte("grant_type"), []byte("granttype"), []byte("client_id"), []byte("clientid"), []byte("client_secret"), []byte("clientsecret"),
	[]byte("token"), []byte("requestsecuritytoken"),
}

// lookTelling are those that stand anywhere in a text, in whatever case.
func lookTelling(text []byte) (names []string) {
	for name := range eachTelling(text) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// eachTelling yields them as often as they are there. Nearly every body is asked, and
// nearly none has any: it is copied only where a letter outside of ASCII may stand for one
// of theirs, as the Kelvin sign does.
func eachTelling(text []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		if bytes.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
			text = bytes.ToLower(text)
		}
		for i, b := range text {
			switch b | ' ' {
			case 'g', 'c', 't', 'r': // they begin with one of these
			default:
				continue
			}
			for _, name := range telling {
				if len(text)-i >= len(name) && bytes.EqualFold(text[i:i+len(name)], name) && !yield(string(name)) {
					return
				}
			}
		}
	}
}

// mayTell tells whether a text of JSON or XML has such a name, or one that is escaped.
func mayTell(text []byte) bool {
	if bytes.Contains(text, []byte(`\u`)) {
		return true
	}
	for range eachTelling(text) {
		return true
	}
	return false
}

// addLooks takes what can't be read for all that it looks like.
func (f *fields) addLooks(text []byte) {
	f.others = true
	for _, name := range lookTelling(text) {
		f.add(name, "")
	}
}

// boundaryOf is what parts a body of several parts, as its type says or else its first
// line; "": it has none.
func boundaryOf(h http.Header, body []byte) string {
	for _, line := range h.Values("Content-Type") {
		if _, parameters, err := mime.ParseMediaType(line); err == nil && parameters["boundary"] != "" {
			return parameters["boundary"]
		}
	}
	if line, _, found := bytes.Cut(body, []byte("\r\n")); found {
		if boundary, found := bytes.CutPrefix(line, []byte("--")); found {
			return string(boundary)
		}
	}
	return ""
}

func (f *fields) readParts(body []byte, boundary string) {
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		switch {
		case err == io.EOF:
			return
		case err != nil, part.FormName() == "":
			f.addLooks(body)
			return
		}
		f.add(part.FormName(), "")
	}
}

// readPairs parts at semicolons too, as some servers do.
func (f *fields) readPairs(text string) {
	if !strings.Contains(text, "=") {
		return
	}
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		f.add(strings.TrimSpace(unescaped(name)), unescaped(value))
	}
}

// eachMember hands over the members of a JSON object as long as they are taken, and
// tells whether all were and nothing else is in the text.
func eachMember(text []byte, take func(name string, value json.RawMessage) bool) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, _ := d.Token(); begin != json.Delim('{') {
		return false
	}
	for d.More() {
		token, _ := d.Token()
		name, isName := token.(string) // else it can't be read
		var value json.RawMessage
		if !isName || d.Decode(&value) != nil || !take(name, value) {
			return false
		}
	}
	if _, err := d.Token(); err != nil {
		return false
	}
	_, err := d.Token()
	return err == io.EOF
}

// textMembers returns the members of a JSON object all of which are texts, or lists of
// texts, and no two called alike.
func textMembers(body []byte) (members map[string]string, ok bool) {
	members = map[string]string{}
	ok = eachMember(body, func(name string, value json.RawMessage) bool {
		var text string
		var list []string
		_, twice := members[name]
		if twice || json.Unmarshal(value, &text) != nil && json.Unmarshal(value, &list) != nil {
			return false
		}
		members[name] = text
		return true
	})
	return members, ok
}
