package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"github.com/onceward/onceward/internal/tables"
)

// IsTidyTokenRequest reports whether a message cannot be anything but a request for a token. Such a message is a POST
// of a well-formed form or JSON object with grant_type and no other fields than token endpoints take, each once.
func IsTidyTokenRequest(method string, m tables.Message) bool {
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

// tokenFields are the token request parameters in IANA's OAuth registry, and audience and organization, which Auth0
// takes.
var tokenFields = []string{
	"grant_type", "code", "redirect_uri", "client_id", "client_secret", "client_assertion", "client_assertion_type", "scope",
	"username", "password", "refresh_token", "assertion", "code_verifier", "device_code", "auth_req_id", "resource", "audience",
	"subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type", "organization",
}

// eachMember calls take for each member of a JSON object until it returns false. It reports whether all were taken
// and the text holds nothing else.
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

// textMembers returns a JSON object's members. ok is false unless every member is a text or a text list, and no name
// occurs twice.
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
