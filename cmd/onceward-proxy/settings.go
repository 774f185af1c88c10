package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/proxy"
)

// settings are the file's fields.
type settings struct {
	Journal string     `json:"journal"` // the SQLite file's path
	Secret  string     `json:"secret"`  // env: or file:, of 16 bytes or more
	Listen  []listener `json:"listen"`

	secret    []byte
	providers []providers.Provider
}

// listener is one upstream, and where its callers reach it.
type listener struct {
	Socket      string   `json:"socket"`      // a Unix socket's path
	Addr        string   `json:"addr"`        // host and port, instead of a socket
	Certificate string   `json:"certificate"` // of addr: PEM files
	Key         string   `json:"key"`
	Hosts       []string `json:"hosts"` // accepted Host headers

	Upstream    string   `json:"upstream"`
	Provider    string   `json:"provider"`  // the table's name
	Retention   string   `json:"retention"` // of the tables ietf, raw and onceward
	Scope       string   `json:"scope"`
	Credentials []string `json:"credentials"` // env: or file:

	upstream proxy.Upstream
}

// tables are the tables that package proxy has a form of refusal for. The tables for APIs of one's own need a retention.
var tables = map[string]func(retention time.Duration) providers.Provider{
	"stripe":   func(time.Duration) providers.Provider { return providers.Stripe() },
	"square":   func(time.Duration) providers.Provider { return providers.Square(0) },
	"resend":   func(time.Duration) providers.Provider { return providers.Resend() },
	"svix":     func(time.Duration) providers.Provider { return providers.Svix() },
	"onceward": func(retention time.Duration) providers.Provider { return providers.Onceward(retention) },
	"ietf":     func(retention time.Duration) providers.Provider { return providers.IETF(retention) },
	"raw":      func(retention time.Duration) providers.Provider { return providers.Raw(retention) },
}

// read reads the file and the secrets that it names. The error names the field, and never a secret.
func read(path string) (*settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := new(settings)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(s); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("more follows the JSON object")
	}
	switch {
	case s.Journal == "":
		return nil, errors.New(`the field "journal" is missing: give the path of the journal's file`)
	case len(s.Listen) == 0:
		return nil, errors.New(`the field "listen" is empty: give one listener for each upstream`)
	}
	if s.secret, err = secretOf(s.Secret); err != nil {
		return nil, fmt.Errorf(`the field "secret": %w`, err)
	}
	for i := range s.Listen {
		if err := s.add(&s.Listen[i]); err != nil {
			return nil, fmt.Errorf("listen[%d]: %w", i, err)
		}
	}
	return s, nil
}

// secretOf reads a secret from where the file says.
func secretOf(from string) ([]byte, error) {
	kind, name, _ := strings.Cut(from, ":")
	switch {
	case kind == "env" && name != "":
		value := os.Getenv(name)
		if value == "" {
			return nil, fmt.Errorf("the environment variable %s is empty", name)
		}
		return []byte(value), nil
	case kind == "file" && name != "":
		value, err := os.ReadFile(name)
		return bytes.TrimRight(value, "\r\n"), err
	}
	return nil, errors.New("a secret is no part of the file: give env:NAME or file:PATH")
}

// add checks a listener, and adds its upstream's table.
func (s *settings) add(l *listener) (err error) {
	if (l.Socket == "") == (l.Addr == "") {
		return errors.New(`give either "socket" or "addr"`)
	}
	if (l.Certificate == "") != (l.Key == "") || l.Socket != "" && l.Certificate != "" {
		return errors.New(`the fields "certificate" and "key" go together, with "addr"`)
	}
	u := &l.upstream
	if u.URL, err = url.Parse(l.Upstream); err != nil || u.URL.Host == "" {
		return fmt.Errorf(`the field "upstream" is %q: give scheme and host, such as https://api.stripe.com`, l.Upstream)
	}
	u.Scope, u.Hosts = l.Scope, l.Hosts
	for i, from := range l.Credentials {
		value, err := secretOf(from)
		if err != nil {
			return fmt.Errorf("credentials[%d]: %w", i, err)
		}
		if !bytes.ContainsRune(value, ' ') { // a key alone
			value = append([]byte("Bearer "), value...)
		}
		u.Credentials = append(u.Credentials, value)
	}
	for i := range s.Listen {
		other := &s.Listen[i]
		if other == l {
			break
		}
		if other.Provider == l.Provider && other.Retention != l.Retention {
			return fmt.Errorf("listen[%d] says another retention for %s: a provider has one in a process", i, l.Provider)
		}
		if strings.EqualFold(other.upstream.URL.Host, u.URL.Host) && !slices.EqualFunc(other.upstream.Credentials, u.Credentials, bytes.Equal) {
			return fmt.Errorf("listen[%d] has other credentials for %s, and the background could not tell which to send with: give each set of credentials a process and a journal of its own", i, u.URL.Host)
		}
	}
	return s.serveBy(l.Provider, l.Retention, u.URL)
}

// serveBy has a provider's table serve the upstream. A provider that names its hosts is called nowhere else, except on
// the loopback interface.
func (s *settings) serveBy(name, retention string, upstream *url.URL) error {
	table, is := tables[name]
	if !is {
		return fmt.Errorf(`the field "provider" is %q: give stripe, square, resend or svix, or ietf, raw or onceward for an API of your own`, name)
	}
	var remembers time.Duration
	if needs := name == "ietf" || name == "raw" || name == "onceward"; needs != (retention != "") {
		return errors.New(`the field "retention" goes with the providers ietf, raw and onceward, which need it: how long the API remembers a key, such as 24h`)
	} else if needs {
		var err error
		if remembers, err = time.ParseDuration(retention); err != nil || remembers <= 0 {
			return fmt.Errorf(`the field "retention" is %q: give a time such as 24h`, retention)
		}
	}
	at := slices.IndexFunc(s.providers, func(p providers.Provider) bool { return p.Name == name })
	if at < 0 {
		at = len(s.providers)
		s.providers = append(s.providers, table(remembers))
	}
	p := &s.providers[at]
	switch {
	case slices.Contains(p.Hosts, strings.ToLower(upstream.Host)):
	case len(table(remembers).Hosts) > 0 && !isLoopback(upstream.Hostname()):
		return fmt.Errorf("the table of %s does not serve %s, but %s", name, upstream.Host, strings.Join(table(remembers).Hosts, ", "))
	default:
		p.Hosts = append(p.Hosts, strings.ToLower(upstream.Host))
	}
	return nil
}
