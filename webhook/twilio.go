package webhook

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Twilio verifies Twilio's webhooks. origin is the scheme and host of the called URL, such as
// "https://hooks.example.com", and the part of the path that a proxy removes, if any. The request's own target is the
// rest of the URL. The handshake of a WebSocket (ConversationRelay, Media Streams) is signed over
// "wss://hooks.example.com" (documented). A secret is the auth token of the account, or of the subaccount, that the
// webhook belongs to. Twilio returns an error if a secret is missing or origin is invalid.
//
// X-Twilio-Signature is base64 of HMAC-SHA1 over the URL that Twilio called, followed by the form's parameters sorted
// by name, each name and value, without separators. If the URL has bodySHA256, the URL alone is signed, and the body
// has to have that SHA-256 (read in twilio-go d858acd, client/request_validator.go; documented on "Webhooks
// security"). Twilio signs with or without the URL's port, so both are tried, with the default port if origin has
// none.
//
// If a parameter comes more than once, every value is signed, in order (twilio-node pull request 723) and each once
// (not confirmed). twilio-go takes the first alone, which would leave the others open to change. A body that is neither
// a form nor under bodySHA256 is ErrMalformed, because nothing signs the body.
//
// Neither a timestamp nor an identifier is signed, so a request can be replayed for ever. Message.ID is a digest of the
// signed text, without the origin. I-Twilio-Idempotency-Token, which marks a repeated callback, is not under the
// signature. Twilio is reported to sort query parameters of URLs in TwiML only after signing (twilio-php issue 790):
// pass sorted parameters.
func Twilio(origin string, authTokens ...string) (*Verifier, error) {
	const scheme = "twilio"
	origins, err := twilioOrigins(origin)
	if err != nil {
		return nil, err
	}
	tokens, err := newSecrets(scheme, authTokens, asGiven)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, verify: func(r *http.Request, body []byte) (Message, error) {
		signature, err := base64Header(r.Header, "X-Twilio-Signature")
		if err != nil {
			return Message{}, err
		}
		target := r.RequestURI
		if !strings.HasPrefix(target, "/") { // not a server's request, or one through a proxy
			target = r.URL.RequestURI()
		}
		parameters, err := twilioParameters(r.Header.Get("Content-Type"), target, body)
		if err != nil {
			return Message{}, err
		}
		found := false
		for _, origin := range origins {
			found = tokens.signed(sha1.New, [][]byte{signature}, []byte(origin), []byte(target), parameters) || found
		}
		if !found {
			return Message{}, noMatch()
		}
		return Message{ID: digest([]byte(target), parameters)}, nil
	}}, nil
}

var defaultPorts = map[string]string{"https": "443", "http": "80", "wss": "443", "ws": "80"}

// twilioOrigins returns origin with and without its port.
func twilioOrigins(origin string) ([]string, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || defaultPorts[u.Scheme] == "" || strings.ContainsAny(origin, "?#") {
		return nil, errors.New("webhook: twilio: the origin is not of the form https://host")
	}
	begin, rest, _ := strings.Cut(strings.TrimSuffix(origin, "/"), "://")
	authority, path, hasPath := strings.Cut(rest, "/")
	if hasPath {
		path = "/" + path
	}
	begin += "://" + authority[:strings.LastIndex(authority, "@")+1]
	without := strings.TrimSuffix(strings.TrimSuffix(u.Host, u.Port()), ":")
	if u.Port() != "" {
		return []string{begin + u.Host + path, begin + without + path}, nil
	}
	return []string{begin + without + path, begin + net.JoinHostPort(u.Hostname(), defaultPorts[u.Scheme]) + path}, nil
}

// twilioParameters returns the part of the signed text after the URL.
func twilioParameters(contentType, target string, body []byte) ([]byte, error) {
	_, query, _ := strings.Cut(target, "?")
	if sums := twilioSums(query); len(sums) > 0 {
		want, err := hex.DecodeString(sums[0])
		if err != nil || len(sums) > 1 {
			return nil, malformed("bodySHA256 is not one SHA-256 in hexadecimal")
		}
		if got := sha256.Sum256(body); subtle.ConstantTimeCompare(got[:], want) != 1 {
			return nil, noMatch()
		}
		return nil, nil
	}
	if len(body) == 0 {
		return nil, nil
	}
	if mediaType, _, _ := mime.ParseMediaType(contentType); mediaType != "application/x-www-form-urlencoded" {
		return nil, malformed("the body is not a form and the URL has no bodySHA256")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, malformed("the form can't be parsed")
	}
	return twilioForm(form), nil
}

// twilioSums returns the values of bodySHA256. The URL is signed unchanged, so the rest of the query may have any form,
// even a lone % or a semicolon.
func twilioSums(query string) (sums []string) {
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if text, err := url.QueryUnescape(name); err == nil {
			name = text
		}
		if name == "bodySHA256" {
			sums = append(sums, value) // in hexadecimal, which needs no escapes
		}
	}
	return sums
}

func twilioForm(form url.Values) (signed []byte) {
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range slices.Compact(slices.Sorted(slices.Values(form[name]))) {
			signed = append(append(signed, name...), value...)
		}
	}
	return signed
}
