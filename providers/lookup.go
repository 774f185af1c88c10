package providers

import (
	"fmt"
	"time"
)

// Lookup is a way to find out by reading whether a request took effect, after its answer
// was lost. It describes one request that changes nothing, the items of its answer, and
// which of them is the object that the operation created.
//
// Templates are text with placeholders in braces. Each is replaced by its value, escaped
// for the place it stands in (a segment of a path, a query, a JSON string, a form):
//
//	{key}            the operation's idempotency key
//	{reference}      its reference, see Endpoint.Reference
//	{path.NAME}      what the wildcard NAME of the endpoint's Pattern matched
//	{request.FIELD}  a field of the frozen request: a dotted path into its JSON body, the
//	                 name of a form field (or query parameter, if it has no body)
//	{account}        whose the credential is, as Provider.Identity tells
//	{since} {until}  the window in which it can have been created, by TimeLayout
//	{id}             the found object's id; in Fetch only
//
// A look-up that asks for what the request does not have is passed over.
//
// The items of its answer count by their ID: two that have the same are one object. No
// filter is trusted: an item counts only where all of Same holds, whatever the provider
// was asked for. One object that counts is the operation's; two or more are none, but for
// a person to look at.
type Lookup struct {
	// By says what the object is recognised by.
	By LookupBy

	// Method is GET if it is empty. Any other method is sent only where the table says of
	// the same request that it has NoEffect, or is a query in GraphQL.
	Method string

	// Path, Query and Body are templates of the request's path, its query and its body.
	// Everything else, host, headers and credential, is the operation's own. A body that
	// begins with a brace is JSON; any other is a form.
	Path, Query, Body string

	// TimeLayout says how {since} and {until} are written: "unix" for seconds, "date" for
	// 2006-01-02 in UTC, "rfc3339" for a time in UTC without fractions, or a layout of
	// package time's.
	TimeLayout string

	// Items is the path of the answer's items: "data[]", "_embedded.transfers[]", "[]"
	// for an answer that is an array. It ends in []; every array on its way has one too.
	// Empty means that the whole answer is the one item. Where it is missing in an answer,
	// that says nothing, not that there are no items.
	Items string

	// XML says that the answers are in XML, and read as JSON: the elements in the root element are
	// members; an element whose elements are called item is an array, named in a path like any,
	// "reservationSet[]"; one without elements is a text. UTF-8 only, without a document type.
	XML bool

	// Same has to hold, all of it, for an item to be the operation's object. Where Items
	// is empty and the path names the key, the reference or the object itself, it may
	// be empty.
	Same []Same

	// ID is the path of an item's id.
	ID string

	// Created is the path of an item's time of creation, or empty. The time is a number of
	// seconds since 1970, or of milliseconds, or as RFC 3339 has it, where the T may be a space
	// and UTC is meant if nothing is said. An item that was created twenty minutes before the operation
	// was first sent, or earlier, is another's; one of less than five minutes before may be
	// the operation's; and one between the two makes the look tell nothing, as a clock may
	// have been wrong.
	Created string

	// Next says how the next page of items is asked for.
	Next Paging

	// Means says what the state of the object means, by the first that matches. Where none
	// does, the object is there, so that the request took effect, but its state is not the
	// one that a create answers with: see SameShape.
	Means []Meaning

	// Fetch is a template of the path at which the object itself is got, with a GET. Means
	// and SameShape then speak of what comes of it. Empty: they speak of the item.
	Fetch string

	// SameShape says that the object has the shape in which a create answers. It then is
	// the operation's answer, if one of Means said that it took effect; one that was found
	// in another state completes the operation by its id alone.
	SameShape bool

	// Horizon is how old an object may be to be found by the look-up; 0 means that it has no
	// end. What is older may not be shown, whether or not it was created. It takes two looks, an hour
	// apart, to prove an absence: one of an hour and a half or less proves none.
	Horizon time.Duration

	// Absent says what it takes to believe that an object which was not found was never
	// created. The zero Absence: nothing does.
	Absent Absence

	// Needs names the permission that the credential has to have for it, if that is not
	// the one by which objects are created.
	Needs string

	// Source names where the facts come from.
	Source string
}

// LookupBy is what a look-up recognises an object by.
type LookupBy uint8

const (
	// ByKey: the object or an event of its shows the idempotency key. Exact.
	ByKey LookupBy = iota + 1

	// ByReference: it shows the reference of the request, see Endpoint.Reference. Exact
	// where a client has filled it in; a caller's own needs the rest of Same besides.
	ByReference

	// ByParent: it is part of an object that the request names, a refund of a payment.
	ByParent

	// ByTime: everything of a window is read, and compared by its fields.
	ByTime
)

var lookupByNames = [...]string{
	ByKey:       "key",
	ByReference: "reference",
	ByParent:    "parent",
	ByTime:      "time",
}

// String returns what it is in a word, "key" for ByKey.
func (b LookupBy) String() string {
	if b.valid() {
		return lookupByNames[b]
	}
	return fmt.Sprintf("lookup by(%d)", uint8(b))
}

func (b LookupBy) valid() bool { return b >= ByKey && b <= ByTime }

// Same is a comparison that has to hold between an item and the request.
type Same struct {
	// Field is a path in the item, as of [Rule.Field]. An item without it is not the one.
	Field string

	// Is is a template, see [Lookup], of what has to stand there.
	Is string

	// As says how the two are compared.
	As Comparison

	// Optional says that the comparison is left out where the request does not have what
	// Is asks for, as a refund of all has no amount. Otherwise the look-up is passed over.
	Optional bool
}

// Comparison is how two texts are compared.
type Comparison uint8

const (
	// Exactly: byte for byte.
	Exactly Comparison = iota

	// AnyCase: without regard to the case of ASCII letters, as codes of currencies are.
	AnyCase

	// AsDecimal: as decimal numbers, 10, 10.0 and 10.00 being the same. One that is not
	// such a number is the same as none.
	AsDecimal
)

var comparisonNames = [...]string{
	Exactly:   "exactly",
	AnyCase:   "any case",
	AsDecimal: "as a decimal",
}

// String returns the comparison in words, "any case" for AnyCase.
func (c Comparison) String() string {
	if c.valid() {
		return comparisonNames[c]
	}
	return fmt.Sprintf("comparison(%d)", uint8(c))
}

func (c Comparison) valid() bool { return c <= AsDecimal }

// Paging says how a list goes on. The zero Paging says that it does not: its one page has
// every item.
type Paging struct {
	// Style is how the next page is told.
	Style PageStyle

	// Param is the query parameter that asks for the next page; in a look-up with a Body,
	// the dotted path of the field of its JSON, or the name of its form field. The first
	// page is asked for without it, but by its number where pages have numbers. Not used
	// for PageLink.
	Param string

	// Cursor is the path of the next page's cursor, for PageCursor, or of its URL, for
	// PageLink; for PageHeader it is the header's name. Where it is missing, null or empty
	// in an answer, that page was the last. For PageLastID it is the path in an item of the id
	// that is sent back, or empty, if that is the ID of the look-up.
	Cursor string

	// More, if not empty, is the path of a boolean that is false on the last page. It has
	// to be there. Without it, PageLastID ends at a page with fewer items than Size, and
	// PageOffset and PageNumber at a page without any.
	More string

	// Size is how many items a page has at most, as the look-up asks for them. An answer
	// with as many of a list that does not go on may have been cut there, and then proves no
	// absence.
	Size int
}

// PageStyle is how the next page of a list is told.
type PageStyle uint8

const (
	// OnePage: there is none.
	OnePage PageStyle = iota

	// PageCursor: a field of the answer is sent back as Param.
	PageCursor

	// PageHeader: a header of the answer is sent back as Param.
	PageHeader

	// PageLastID: Param is the id of the last item.
	PageLastID

	// PageOffset: Param is the number of items on the pages before it.
	PageOffset

	// PageNumber: Param is the page's number; the first has 1.
	PageNumber

	// PageLink: a field of the answer is the URL of the next page. Only its query is used,
	// and only where its host and its path are the look-up's.
	PageLink
)

var pageStyleNames = [...]string{
	OnePage:    "one page",
	PageCursor: "cursor",
	PageHeader: "header",
	PageLastID: "last id",
	PageOffset: "offset",
	PageNumber: "number",
	PageLink:   "link",
}

// String returns the style in words, "last id" for PageLastID.
func (s PageStyle) String() string {
	if s.valid() {
		return pageStyleNames[s]
	}
	return fmt.Sprintf("page style(%d)", uint8(s))
}

func (s PageStyle) valid() bool { return s <= PageLink }

// Meaning is what a state of an object says of the request that created it.
type Meaning struct {
	// Field is a path in the object, and Equals its text, compared exactly; empty, the
	// field has to be there.
	Field, Equals string

	// Is is what it means.
	Is Outcome
}

// Outcome is what became of a request, as an object or an event shows it.
type Outcome uint8

const (
	// TookEffect: it did what it was sent for.
	TookEffect Outcome = iota + 1

	// Refused: it was executed and nothing took effect, for good; no state of the object
	// comes after this one.
	Refused

	// InProgress: the object is there, and its state is one that still ends as TookEffect
	// or as Refused.
	InProgress

	// Reversed: it took effect, and this was undone later.
	Reversed
)

var outcomeNames = [...]string{
	TookEffect: "took effect",
	Refused:    "refused",
	InProgress: "in progress",
	Reversed:   "reversed",
}

// String returns the outcome in words, "took effect" for TookEffect.
func (o Outcome) String() string {
	if o.valid() {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

func (o Outcome) valid() bool { return o >= TookEffect && o <= Reversed }

// Absence is what a provider promises of the objects that a look-up does not find. Few
// promise anything; the adapters of this package state none. Who knows more, from a
// contract or a support's answer, states it on a copy, with [Endpoint.HandlingTime], without
// which a request may still be on its way to take effect.
type Absence struct {
	// Consistent says that an object is found by the look-up from the moment it exists.
	Consistent bool

	// VisibleAfter is how long after its creation an object may still not be found, at
	// most. It is stated where Consistent is not.
	VisibleAfter time.Duration

	// Source names where the facts come from.
	Source string
}
