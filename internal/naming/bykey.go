package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// keyParent begins the Ref.Parent of operations whose ID is a key, as they have no name. A space follows, so that no
// caller can name such a parent, and no key is a name.
const keyParent = "key"

// RefsOfKey returns the references that find an operation by key. ref finds an operation without a name. alias finds an
// operation of any name, if the key was carried.
//
// Of the configuration and the table, ref holds the account alone. So it still finds an operation that was begun before
// they were corrected. alias is one within a provider. It is one over all scopes, unless the provider's table says that
// keys of several scopes never meet.
func RefsOfKey(p *providers.Provider, u *url.URL, scope string, account http.Header, key string) (ref, alias journal.Ref) {
	whose := digestOfAccount(account)
	host := "at " + hostOf(u)
	ref = journal.Ref{Scope: scope, Parent: keyParent + " " + host + whose, ID: key}
	holder, perScope := host, false
	if p != nil {
		holder, perScope = p.KeysUnder, p.KeysPerScope
		if len(p.Hosts) == 0 {
			holder += " " + host // any host may be another API
		}
	}
	return ref, aliasAt(holder+whose, perScope, scope, key)
}

func aliasAt(holder string, perScope bool, scope, key string) journal.Ref {
	if perScope {
		return journal.Ref{Scope: scope, Parent: keyParent + ", " + holder, ID: key}
	}
	return journal.Ref{Parent: keyParent + " of any scope, " + holder, ID: key}
}

// FormerAliases returns where else an operation with a carried key may be found. Its
// table may have named other hosts then, or none, or said otherwise whether scopes share
// keys. An operation of another scope whose table kept scopes apart is not among them.
func FormerAliases(p *providers.Provider, u *url.URL, scope string, account http.Header, key string) (aliases []journal.Ref) {
	_, alias := RefsOfKey(p, u, scope, account, key)
	whose, host := digestOfAccount(account), "at "+hostOf(u)
	holders := append(make([]string, 0, 3), host)
	if p != nil {
		holders = append(holders, p.KeysUnder, p.KeysUnder+" "+host)
	}
	aliases = make([]journal.Ref, 0, 2*len(holders))
	for _, holder := range holders {
		for _, perScope := range []bool{false, true} {
			if former := aliasAt(holder+whose, perScope, scope, key); former != alias {
				aliases = append(aliases, former)
			}
		}
	}
	return aliases
}

func digestOfAccount(account http.Header) string {
	if len(account) == 0 {
		return ""
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(account)) {
		writeStrings(h, name)
		writeLength(h, len(account[name]))
		for _, value := range account[name] {
			writeStrings(h, strings.Trim(value, " \t"))
		}
	}
	return ", account " + hex.EncodeToString(h.Sum(nil)[:16])
}

// AccountLabel stands for WithAccount's label among the headers that name the account. It is no header's name.
const AccountLabel = "account label"

// AccountOf returns what says on whose behalf a request is made; nil: nothing does.
func AccountOf(p *providers.Provider, h http.Header, label string) (account http.Header) {
	add := func(name string, values []string) {
		if account == nil {
			account = http.Header{}
		}
		account[name] = values
	}
	if p != nil {
		for _, name := range p.AccountHeaders {
			if values := h.Values(name); len(values) > 0 {
				add(http.CanonicalHeaderKey(name), values)
			}
		}
	}
	if label != "" {
		add(AccountLabel, []string{label})
	}
	return account
}
