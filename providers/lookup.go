package providers

import (
	"time"

	"github.com/onceward/onceward/internal/words"
)

// Lookup finds out, by reading, whether a request took effect after the answer was lost. A Lookup describes one request
// that changes nothing, the answer's items, and how to recognise the created object.
//
// Templates are text with placeholders in braces. Each placeholder is replaced by a value, escaped for the place (a
// path segment, a query, a JSON string, a form):
//
//	{key}            the operation's idempotency key
//	{reference}      the operation's reference, see Endpoint.Reference
//	{path.NAME}      the match of the wildcard NAME in the endpoint's Pattern
//	{request.FIELD}  a field of the frozen request: a dotted path into the JSON body, the
//	                 name of a form field (or query parameter, if there is no body)
//	{account}        the credential's account, see Provider.Identity
//	{since} {until}  the window for the object's creation, by TimeLayout
//	{id}             the found object's id; in Fetch only
//
// A look-up is skipped if the request lacks a needed value.
//
// Items with the same ID are one object. No filter is trusted: an item counts only if all of Same holds, whatever the
// query asked for. If one object counts, the object is the operation's. If two or more count, an operator has to
// decide.
type Lookup struct {
	// By defines how the object is recognised.
	By LookupBy

	// Method is the request's method. Any method but GET is sent only if the table declares NoEffect for the request,
	// or if the request is a GraphQL query. Default: GET.
	Method string

	// Path, Query and Body are templates for the request's path, query and body. The operation supplies host, headers
	// and credential. A body that begins with a brace is JSON. Any other body is a form.
	Path, Query, Body string

	// TimeLayout is the format for {since} and {until}: "unix" for seconds, "date" for 2006-01-02 in UTC, "rfc3339"
	// for a time in UTC without fractions, or a layout for package time.
	TimeLayout string

	// Items is the path to the answer's items: "data[]", "_embedded.transfers[]", or "[]" for an array answer. The
	// path ends in [], as does every array before. Empty means that the whole answer is the one item. An answer
	// without the path proves nothing, not even that there are no items.
	Items string

	// Same must hold completely for an item to be the operation's object. It may be empty if Items is empty
	// and the path contains the key, the reference or the object's id.
	Same []Same

	// ID is the path of an item's id.
	ID string

	// Created is the path to an item's creation time, or empty. The time is a number of seconds or milliseconds since
	// 1970, or RFC 3339, which may have a space for the T and no zone for UTC.
	//
	// An item created twenty minutes or more before the first send belongs to another operation. An item from
	// less than five minutes before may be the operation's. An item between these limits makes the look-up
	// inconclusive, because a clock may have been wrong.
	Created string

	// Next says how to request the next page.
	Next Paging

	// Means lists the meanings for the object's states. The first match counts. If none matches, the request took
	// effect, but the object differs from a create's answer (see SameShape).
	Means []Meaning

	// Fetch is a path template for a GET on the object. Means and SameShape then apply to the fetched object. Empty
	// means that Means and SameShape apply to the item.
	Fetch string

	// SameShape says that the object has the shape of a create's answer. If a Meaning says that the request took
	// effect, the object becomes the operation's answer. An object in another state completes the operation by the
	// object's id alone.
	SameShape bool

	// Horizon is the age after which the look-up may no longer show an object. The operator who judges an empty
	// look-up needs the Horizon. Zero means no limit.
	Horizon time.Duration

	// Needs is the look-up's permission, if different from the permission to create objects.
	Needs string

	// Source is the source of the facts.
	Source string
}

// LookupBy is the mark by which a look-up recognises an object.
type LookupBy uint8

const (
	// ByKey: the object, or an event about it, shows the idempotency key. Exact.
	ByKey LookupBy = iota + 1

	// ByReference: the object shows the request's reference (see Endpoint.Reference). Exact if the client
	// made the reference. A caller's reference also needs the rest of Same.
	ByReference

	// ByParent: the object belongs to another object that the request names, like a refund to a payment.
	ByParent

	// ByTime: all objects of a window are read, and compared by their fields.
	ByTime
)

var lookupByNames = [...]string{
	ByKey:       "key",
	ByReference: "reference",
	ByParent:    "parent",
	ByTime:      "time",
}

// String returns the mark in a word, "key" for ByKey.
func (b LookupBy) String() string { return words.Of("lookup by", lookupByNames[:], b) }

func (b LookupBy) valid() bool { return b >= ByKey && b <= ByTime }

// Same is a required equality between an item and the request.
type Same struct {
	// Field is a path in the item, as of [Rule.Field]. An item without the field is not the object.
	Field string

	// Is is a template of the required value, see [Lookup].
	Is string

	// As is the kind of comparison.
	As Comparison

	// Optional skips the comparison if the request lacks the value that Is needs, as a full refund has no
	// amount. Without Optional, the whole look-up is skipped.
	Optional bool
}

// Comparison is a way to compare two texts.
type Comparison uint8

const (
	// Exactly: byte for byte.
	Exactly Comparison = iota

	// AnyCase: without regard to the case of ASCII letters, for currency codes.
	AnyCase

	// AsDecimal: as decimal numbers. 10, 10.0 and 10.00 are the same. A text that is not such a number counts
	// as none.
	AsDecimal
)

var comparisonNames = [...]string{
	Exactly:   "exactly",
	AnyCase:   "any case",
	AsDecimal: "as a decimal",
}

// String returns the comparison in words, "any case" for AnyCase.
func (c Comparison) String() string { return words.Of("comparison", comparisonNames[:], c) }

func (c Comparison) valid() bool { return c <= AsDecimal }

// Paging says how a list continues. The zero Paging means that one page has every item.
type Paging struct {
	// Style says where the next page comes from.
	Style PageStyle

	// Param is the query parameter for the next page. In a look-up with a Body, Param is the dotted path to a JSON
	// field, or a form field's name. The first request has no Param, except that numbered pages send their number.
	// PageLink does not use Param.
	Param string

	// Cursor is the path to the next page's cursor for PageCursor, or to the next page's URL for PageLink. For
	// PageHeader, Cursor is the header's name. A missing, null or empty cursor marks the last page. For PageLastID,
	// Cursor is the path in an item to the id to send back. Default for PageLastID: the look-up's ID.
	Cursor string

	// More, if not empty, is the path to a boolean that is false on the last page. The boolean must exist. If the
	// path ends in [], More is an array of links instead, and a link whose rel is "next" says that the list goes on.
	// Without More, PageLastID ends at a page with fewer items than Size, and PageOffset and PageNumber at a page
	// without items.
	More string

	// Size is the maximum number of items on a page that the look-up asks for. A single page that is full, or continues
	// by More, may have been cut there, and then shows nothing about the rest.
	Size int
}

// PageStyle says where the next page of a list comes from.
type PageStyle uint8

const (
	// OnePage: there is no next page.
	OnePage PageStyle = iota

	// PageCursor: a field of the answer is sent back as Param.
	PageCursor

	// PageHeader: a header of the answer is sent back as Param.
	PageHeader

	// PageLastID: Param is the id of the last item.
	PageLastID

	// PageOffset: Param is the number of items on the earlier pages.
	PageOffset

	// PageNumber: Param is the page's number, from 1.
	PageNumber

	// PageLink: a field in the answer is the next page's URL. The look-up uses only the URL's query, and only if the
	// URL has the look-up's host and path.
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
func (s PageStyle) String() string { return words.Of("page style", pageStyleNames[:], s) }

func (s PageStyle) valid() bool { return s <= PageLink }

// Meaning is the meaning of an object's state for the request that created the object.
type Meaning struct {
	// Field is a path in the object. Equals is the field's text, compared exactly. If Equals is empty, the field must
	// exist. In an array one element is enough, unless the meaning is Refused, which all elements must have.
	Field, Equals string

	// Is is the meaning.
	Is Outcome
}

// Outcome is a request's outcome, as an object or an event shows the outcome.
type Outcome uint8

const (
	// TookEffect: the request had its effect.
	TookEffect Outcome = iota + 1

	// Refused: the request was executed and had no effect, finally. The object never leaves this state.
	Refused

	// InProgress: the object exists, and its state will become TookEffect or Refused.
	InProgress

	// Reversed: the request had its effect, which was undone later.
	Reversed
)

var outcomeNames = [...]string{
	TookEffect: "took effect",
	Refused:    "refused",
	InProgress: "in progress",
	Reversed:   "reversed",
}

// String returns the outcome in words, "took effect" for TookEffect.
func (o Outcome) String() string { return words.Of("outcome", outcomeNames[:], o) }

func (o Outcome) valid() bool { return o >= TookEffect && o <= Reversed }
