package receipts

import (
	"strings"

	"github.com/onceward/onceward/journal"
)

// The beginnings of a receipt's scope.
const (
	tenantScope   = "t "
	consumerScope = "c "
)

// Name is what a receipt belongs to: a tenant's request, or a consumer's message.
type Name struct {
	Tenant   string
	Endpoint string // of KeysPerEndpoint alone: the first name that the endpoint had

	Consumer       string
	Source, Replay string // of a message

	Key string // of a request; the ID of a message
}

// Receipt returns the name as the journal has it.
func (n Name) Receipt() journal.ReceiptKey {
	if n.Consumer != "" {
		return journal.ReceiptKey{Scope: consumerScope + n.Consumer, Key: strings.Join([]string{n.Source, n.Replay, n.Key}, "\x00")}
	}
	key := n.Key
	if n.Endpoint != "" {
		key = n.Endpoint + "\x00" + key
	}
	return journal.ReceiptKey{Scope: Scope(n.Tenant, ""), Key: key}
}

// Scope returns a tenant's scope, or a consumer's if the consumer has a name.
func Scope(tenant, consumer string) string {
	if consumer != "" {
		return consumerScope + consumer
	}
	return tenantScope + tenant
}

// NameOf returns a receipt's name. A message whose ID is long has a digest instead of ID, source and replay.
func NameOf(r journal.ReceiptKey) Name {
	consumer, is := strings.CutPrefix(r.Scope, consumerScope)
	if !is {
		n := Name{Tenant: strings.TrimPrefix(r.Scope, tenantScope), Key: r.Key}
		if endpoint, key, both := strings.Cut(r.Key, "\x00"); both {
			n.Endpoint, n.Key = endpoint, key
		}
		return n
	}
	n := Name{Consumer: consumer, Key: r.Key}
	if parts := strings.SplitN(r.Key, "\x00", 3); len(parts) == 3 {
		n.Source, n.Replay, n.Key = parts[0], parts[1], parts[2]
	}
	return n
}
