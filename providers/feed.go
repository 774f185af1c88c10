package providers

import (
	"time"

	"github.com/onceward/onceward/internal/words"
)

// Feed describes how a provider lists an account's events, for Client.CatchUp. The zero Feed means that the provider
// lists no events. Templates are those of [Lookup], with the placeholders {since} and {until} only. The window may
// include or exclude the ends.
//
// No list of events is complete: a provider may fail to create an event, or omit an event for which the credential
// has no permission. No filter is trusted: an event counts only if the event's time and type are wanted.
type Feed struct {
	// Method, Path, Query and Body are the request, as in [Lookup]. Host is the request's host, one of Provider.Hosts
	// without a wildcard, such as a sandbox. Default: the first of Provider.Hosts. The request uses https.
	Method, Host, Path, Query, Body string

	// TimeLayout is the format for {since} and {until}, as in [Lookup]. Items is the path to the events in the
	// answer, and Next says how to request the next page. Next.Size is the largest number of events on a page.
	TimeLayout, Items string
	Next              Paging

	// Types and Limit are the parameters, as Paging.Param, for the wanted types and for the number of events on a
	// page. In a query or form, Types is sent once for each type. In a JSON body, Types is an array. Empty means that
	// there is no such parameter.
	Types, Limit string

	// TypesAtOnce is the largest number of types in one request. Zero means that the provider publishes no limit, or
	// does not filter by type.
	TypesAtOnce int

	// Undelivered is added to Query for events that no endpoint accepted. Empty means that the provider has no such
	// list.
	Undelivered string

	// Bound says what limits a list.
	Bound FeedBound

	// ID, At, Type and Account are paths in an event: the event's id, time (in a [Lookup.Created] format), type and
	// account. An empty Account means that every listed event belongs to the account whose credential listed the
	// event.
	ID, At, Type, Account string

	// As is the body of a webhook that brings the event: JSON with {item} in the event's place. Empty means that the
	// event is the body.
	As string

	// SameID says that the event's webhook has the same signed id. Only then may one handler receive both.
	SameID bool

	// Owner says whose events the list has.
	Owner FeedOwner

	// Horizon is the age after which an event is no longer listed. Zero means that the provider publishes none.
	Horizon time.Duration

	// VisibleAfter is the time after which an event is listed at the latest. Zero means that the provider publishes none.
	VisibleAfter time.Duration

	// Needs names the permission that the list requires, and what a person has to enable first.
	Needs string

	// Source is the source of the facts.
	Source string
}

// FeedHost returns the event list's host: Feed.Host, or the first in Hosts.
func (p *Provider) FeedHost() string { return p.hostOf(&p.Feed) }

func (p *Provider) hostOf(f *Feed) string {
	if f.Host == "" && len(p.Hosts) > 0 {
		return p.Hosts[0]
	}
	return f.Host
}

// FeedBound says what limits a list of events.
type FeedBound uint8

const (
	// ByWindow: the request has {since} and {until}.
	ByWindow FeedBound = iota

	// ByPages: no filter. The list has the newest event first, and reading ends after the first page with an event that is
	// older than the window.
	ByPages

	// ByCursor: no filter. The list has the oldest event first. It may begin after a known event, whose id is then sent as
	// Next.Param. Reading ends after the first page with an event that is newer than the window.
	ByCursor
)

var feedBoundNames = [...]string{
	ByWindow: "window",
	ByPages:  "pages",
	ByCursor: "cursor",
}

// String returns the bound in a word, "window" for ByWindow.
func (b FeedBound) String() string { return words.Of("feed bound", feedBoundNames[:], b) }

func (b FeedBound) valid() bool { return b <= ByCursor }

// FeedOwner says whose events a list has.
type FeedOwner uint8

const (
	// OfCredential: the account of the credential.
	OfCredential FeedOwner = iota

	// OfAccountHeader: the account in the first of Provider.AccountHeaders, else the credential's account.
	OfAccountHeader

	// OfApplication: all accounts that use the application. Each event names its account.
	OfApplication
)

var feedOwnerNames = [...]string{
	OfCredential:    "credential",
	OfAccountHeader: "account header",
	OfApplication:   "application",
}

// String returns the owner in words, "account header" for OfAccountHeader.
func (o FeedOwner) String() string { return words.Of("feed owner", feedOwnerNames[:], o) }

func (o FeedOwner) valid() bool { return o <= OfApplication }
