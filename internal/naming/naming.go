// Package naming says what an operation is called.
//
//   - Naming is what a context says about the operations under it.
//   - Parent and Ordinals make up the steps of unnamed calls.
//   - Derive, Child and NewReference make keys and references.
//   - RefsOfKey finds an operation by its key.
//
// The package knows no contents of a journal, no client and no configuration: callers pass the secret. It sends
// nothing.
package naming

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/seam"
)

// Naming holds the names that a context gives to the operations under the context.
type Naming struct {
	Scope   string
	Account string  // the caller's label; "": none
	Parent  *Parent // nil: none
	ID      string
	Named   bool // ID is the caller's name, or a step made up by then

	Due, NotAfter time.Time // zero: at once; at any time

	Tenant func() (string, error) // whose they are below an inbound request without a key; nil: not below one
}

// IsNamed reports whether the operations under it count as named: an operation with a parent does.
func (n Naming) IsNamed() bool { return n.Named || n.Parent != nil }

type contextKey struct{}

// Of returns what ctx says.
func Of(ctx context.Context) Naming {
	if n, is := ctx.Value(contextKey{}).(*Naming); is {
		return *n
	}
	return Naming{}
}

// With returns a context that says n.
func With(ctx context.Context, n Naming) context.Context {
	return &namingContext{ctx, n}
}

// namingContext has its value in itself, which takes one allocation less than context.WithValue.
type namingContext struct {
	context.Context
	naming Naming
}

func (c *namingContext) Value(key any) any {
	if key == (contextKey{}) {
		return &c.naming
	}
	return c.Context.Value(key)
}

// Without returns a context without a name, for the calls inside an attempt. None of the names is the operation named
// by ctx.
func Without(ctx context.Context) context.Context {
	if ctx.Value(contextKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, nothing)
}

var nothing any = &Naming{}

// Hidden returns the value for key in a context like Without's. It reports false for the key of anything else.
func Hidden(key any) (value any, is bool) {
	if key == (contextKey{}) {
		return nothing, true
	}
	return nil, false
}

// Check says what is wrong with a name that is to be journaled, or returns nil.
func (n Naming) Check() error {
	if n.Named && n.ID == "" {
		return errors.New("the operation's name is empty")
	}
	if p := n.Parent; p != nil && p.Scope != "" && p.Scope != n.Scope {
		return errOtherTenant
	}
	if err := cmp.Or(CheckText("name", n.ID), CheckText("scope", n.Scope), CheckText("account", n.Account)); err != nil {
		return err
	}
	if n.Parent != nil {
		return n.Parent.Invalid
	}
	return nil
}

var errOtherTenant = errors.New("the scope of an operation under an inbound request is that request's tenant: " +
	"leave out WithScope, or take the operation out from under the request by an empty WithParent")

// CheckText says what is wrong with a part of an operation's identity, or returns nil.
func CheckText(what, value string) error {
	switch {
	case len(value) > seam.MaxName:
		return fmt.Errorf("the operation's %s has %d bytes; at most %d are kept", what, len(value), seam.MaxName)
	case !utf8.ValidString(value):
		return fmt.Errorf("the operation's %s is not valid UTF-8", what)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("the operation's %s holds a control character", what)
	}
	return nil
}

// Under returns n under another parent, or without one for nil. Below an inbound request another parent stands in the scope
// of that request's tenant.
func (n Naming) Under(p *Parent) Naming {
	if n = n.keepTenant(); p == nil {
		n.Tenant = nil
	}
	n.Parent = p
	return n
}

// keepTenant returns n with the parent's tenant.
func (n Naming) keepTenant() Naming {
	if n.Tenant == nil && n.Parent != nil {
		n.Tenant = n.Parent.whose()
	}
	return n
}

// BelowInbound returns n for calls below an inbound request without a key: names there belong to the tenant and have no
// parent.
func (n Naming) BelowInbound() (Naming, error) {
	p := n.Parent
	switch {
	case p == nil:
		return n, nil
	case p.Tenant == nil:
		return n.OfTenant()
	}
	n.Parent, n.Tenant = nil, p.Tenant
	if !n.Named {
		return n, nil
	}
	return n.OfTenant()
}

// OfTenant returns n in the scope of the inbound request's tenant, if there is one. A key that a request brings along
// is looked for there, as a name is.
func (n Naming) OfTenant() (Naming, error) {
	if n.Tenant == nil {
		return n, nil
	}
	tenant, err := n.Tenant()
	switch {
	case err != nil:
		return n, fmt.Errorf("the tenant of its inbound request is not known: %w", err)
	case n.Scope != "" && n.Scope != tenant:
		return n, errOtherTenant
	}
	n.Scope = tenant
	return n, nil
}

// ForLookup returns n for a look-up of an operation by key: in the tenant's scope, whichever source names the tenant.
func (n Naming) ForLookup() (Naming, error) { return n.keepTenant().OfTenant() }
