package call

import (
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// decideKey fills in the identity and the key, as far as they follow from the request. An operation that the journal
// knows has the journal's key.
func (k *Call) decideKey(carried string, isCarried bool) error {
	in := &k.intent
	key := carried
	k.carried = carried
	if isCarried && !k.name.Named {
		var err error
		if k.name, err = k.name.OfTenant(); err != nil {
			return err
		}
	}
	k.ref = journal.Ref{Scope: k.name.Scope, ID: k.name.ID}
	k.account = naming.AccountOf(k.route.Provider, k.req.Header, k.name.Account)
	if k.name.Parent != nil {
		k.ref.Parent, in.InboundEndpoint = k.name.Parent.Ref, k.name.Parent.Endpoint
		if flow := k.name.Parent.Flow; flow != nil {
			in.Flow = flow.Flow
		}
		if !k.name.Named {
			return nil // the rest follows from its step
		}
	}
	switch {
	case k.name.Parent != nil:
		key = k.name.Parent.Derive(k.name.Scope, k.name.ID)
	case isCarried:
		in.KeyCarried = true
	case k.name.Named && k.client.Secret != nil:
		key = naming.Derive(k.client.Secret, "operation", k.name.Scope, k.name.ID)
	default:
		key = naming.NewKey()
	}
	version := k.route.Endpoint.Key.UUIDVersion
	if !in.KeyCarried {
		key = naming.AsVersion(key, version)
	}
	switch {
	case k.name.Named:
		in.Naming = journal.Named
		in.NextKey = k.nextKey
	case isCarried:
		in.Naming = journal.Carried
	default:
		in.Naming = journal.Generated
	}
	if !k.name.Named || in.KeyCarried {
		unnamed, alias := naming.RefsOfKey(k.route.Provider, k.req.URL, k.name.Scope, k.account, key)
		if !k.name.Named {
			k.ref = unnamed
		}
		if in.KeyCarried {
			in.Alias = alias
		}
	}
	if k.route.Endpoint.Key.Place == providers.KeyNone {
		key, in.NextKey = "", nil
	}
	in.Key = key
	return tables.Key(k.route.Endpoint.Key).OfAnyVersion().Check(in.Key)
}

// nextKey is machine.Intent.NextKey.
func (k *Call) nextKey(generation int) string {
	return naming.LaterKey(k.client.Secret, k.ref, k.intent.Key, generation, k.route.Endpoint.Key.UUIDVersion)
}
