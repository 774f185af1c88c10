package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/proxy"
)

// settings are the file's fields.
type settings struct {
	Journal    string     `json:"journal"`    // the SQLite file's path; env: or file: of a database's address
	Deployment string     `json:"deployment"` // of a journal in a database
	Schema     string     `json:"schema"`     // likewise, if it is not the usual one
	Witness    string     `json:"witness"`    // likewise: the path of a journal.WitnessFile
	Secret     string     `json:"secret"`     // env: or file:, of 16 bytes or more
	Listen     []listener `json:"listen"`

	database  string // its address, if the journal is no file
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

// table is a provider's table that package proxy has a refusal form for, and how its callers show a credential.
type table struct {
	of        func(upstream string) providers.Provider
	own       func(retention time.Duration) providers.Provider // instead, for an API of one's own
	header    string                                           // of the credential, if not Authorization
	tokenPath string                                           // of OAuth tokens
}

var tables = map[string]table{
	"stripe":   {of: func(string) providers.Provider { return providers.Stripe() }},
	"square":   {of: func(string) providers.Provider { return providers.Square(0) }},
	"resend":   {of: func(string) providers.Provider { return providers.Resend() }},
	"svix":     {of: func(string) providers.Provider { return providers.Svix() }},
	"adyen":    {of: adyen, header: "X-API-Key"},
	"paypal":   {of: func(string) providers.Provider { return providers.PayPal() }, tokenPath: "/v1/oauth2/token"},
	"onceward": {own: func(retention time.Duration) providers.Provider { return providers.Onceward(retention) }},
	"ietf":     {own: func(retention time.Duration) providers.Provider { return providers.IETF(retention) }},
	"raw":      {own: func(retention time.Duration) providers.Provider { return providers.Raw(retention) }},
}

// adyen is Adyen's table for an upstream, which may be one of the company's own live hosts.
func adyen(upstream string) providers.Provider {
	prefix, _, isOwn := strings.Cut(upstream, "-checkout-live.adyenpayments.com")
	if !isOwn {
		prefix, _, isOwn = strings.Cut(upstream, "-pal-live.adyenpayments.com")
	}
	if !isOwn {
		prefix = ""
	}
	return providers.Adyen(prefix)
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
		return nil, errors.New(`the field "journal" is missing: give the path of the journal's file, or env:NAME or file:PATH for the URL of a database`)
	case !isSecret(s.Journal) && (address.Of(s.Journal) != address.File || address.MeansDatabase(s.Journal)):
		return nil, errors.New(`the field "journal" is a database's address, which may hold a password: give env:NAME or file:PATH`)
	case isSecret(s.Journal) != (s.Deployment != ""):
		return nil, errors.New(`the field "deployment" goes with a journal in a database, which needs it: whose journal it is, such as prod`)
	case !isSecret(s.Journal) && s.Schema+s.Witness != "":
		return nil, errors.New(`the fields "schema" and "witness" go with a journal in a database`)
	case len(s.Listen) == 0:
		return nil, errors.New(`the field "listen" is empty: give one listener for each upstream`)
	}
	if isSecret(s.Journal) {
		from, err := secretOf(s.Journal)
		if err != nil {
			return nil, fmt.Errorf(`the field "journal": %w`, err)
		}
		if s.database = string(from); address.Of(s.database) == address.File {
			return nil, errors.New(`the field "journal": what it names is no address of a database: give postgres://user:password@host:5432/database, mysql://user:password@host:3306/ or user:password@tcp(host:3306)/`)
		}
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

// isSecret reports whether a field says where a secret is.
func isSecret(field string) bool {
	return strings.HasPrefix(field, "env:") || strings.HasPrefix(field, "file:")
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
	t, is := tables[l.Provider]
	if !is {
		return fmt.Errorf(`the field "provider" is %q: give %s, or ietf, raw or onceward for an API of your own`, l.Provider, strings.Join(named(), ", "))
	}
	u.Scope, u.Hosts, u.CredentialHeader, u.TokenPath = l.Scope, l.Hosts, t.header, t.tokenPath
	for i, from := range l.Credentials {
		value, err := secretOf(from)
		if err != nil {
			return fmt.Errorf("credentials[%d]: %w", i, err)
		}
		u.Credentials = append(u.Credentials, t.credential(value))
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
	return s.serveBy(t, l.Provider, l.Retention, u.URL)
}

// credential returns a header's value for a secret, which may be a key alone, or a client's id and secret with a colon.
func (t table) credential(secret []byte) []byte {
	switch {
	case t.header != "" || bytes.ContainsRune(secret, ' '):
		return secret
	case t.tokenPath != "":
		return append([]byte("Basic "), base64.StdEncoding.EncodeToString(secret)...)
	}
	return append([]byte("Bearer "), secret...)
}

// named are the names of the tables for providers.
func named() (names []string) {
	for name, t := range tables {
		if t.of != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// serveBy has a provider's table serve the upstream. A provider that names its hosts is called nowhere else, except on
// the loopback interface.
func (s *settings) serveBy(t table, name, retention string, upstream *url.URL) error {
	host := strings.ToLower(upstream.Host)
	var made providers.Provider
	switch remembers, err := time.ParseDuration(cmp.Or(retention, "0")); {
	case (t.own != nil) != (retention != ""):
		return errors.New(`the field "retention" goes with the providers ietf, raw and onceward, which need it: how long the API remembers a key, such as 24h`)
	case t.own == nil:
		made = t.of(host)
	case err != nil || remembers <= 0:
		return fmt.Errorf(`the field "retention" is %q: give a time such as 24h`, retention)
	default:
		made = t.own(remembers)
	}
	at := slices.IndexFunc(s.providers, func(p providers.Provider) bool { return p.Name == name })
	if at < 0 {
		at = len(s.providers)
		s.providers = append(s.providers, made)
	}
	p := &s.providers[at]
	switch {
	case slices.Contains(p.Hosts, host):
	case len(made.Hosts) > 0 && !slices.Contains(made.Hosts, host) && !address.IsLoopback(upstream.Hostname()):
		return fmt.Errorf("the table of %s does not serve %s, but %s", name, upstream.Host, strings.Join(made.Hosts, ", "))
	default:
		p.Hosts = append(p.Hosts, host)
	}
	return nil
}
