package providers

import (
	"time"

	"github.com/onceward/onceward/internal/words"
)

// Lookup finds out, by reading, whether a request took effect after its answer was lost. It describes one
// request that changes nothing, the items of its answer, and how to recognise the object that the operation
// created.
//
// Templates are text with placeholders in braces. Each is replaced by its value, escaped for its place (a
// segment of a path, a query, a JSON string, a form):
//
//	{key}            the operation's idempotency key
//	{reference}      its reference, see Endpoint.Reference
//	{path.NAME}      the match of the wildcard NAME of the endpoint's Pattern
//	{request.FIELD}  a field of the frozen request: a dotted path into its JSON body, the
//	                 name of a form field (or query parameter, if it has no body)
//	{account}        the account of the credential, see Provider.Identity
//	{since} {until}  the window of its creation, by TimeLayout
//	{id}             the found object's id; in Fetch only
//
// A look-up is skipped if the request lacks a value that it needs.
//
// Items with the same ID are one object. No filter is trusted: an item counts only if all of Same holds,
// whatever the query asked for. One object that counts is the operation's. If two or more count, an operator
// has to decide.
type Lookup struct {
	// By defines how the object is recognised.
	By LookupBy

	// Method is the method of the request. Any method but GET is sent only if the table declares NoEffect for
	// that request, or if it is a GraphQL query. Default: GET.
	Method string

	// Path, Query and Body are templates of the request's path, query and body. Host, headers and credential
	// are the operation's own. A body that begins with a brace is JSON. Any other body is a form.
	Path, Query, Body string

	// TimeLayout is the format of {since} and {until}: "unix" for seconds, "date" for 2006-01-02 in UTC,
	// "rfc3339" for a time in UTC without fractions, or a layout of package time.
	TimeLayout string

	// Items is the path of the answer's items: "data[]", "_embedded.transfers[]", or "[]" for an answer that
	// is an array. It ends in [], as does every array before it. Empty means that the whole answer is the one
	// item. An answer without that path proves nothing. It does not mean that there are no items.
	Items string

	// Same must hold completely for an item to be the operation's object. It may be empty if Items is empty
	// and the path contains the key, the reference or the object's id.
	Same []Same

	// ID is the path of an item's id.
	ID string

	// Created is the path of an item's time of creation, or empty. The time is a number of seconds or
	// milliseconds since 1970, or RFC 3339, which may have a space for the T and no zone for UTC.
	//
	// An item created twenty minutes or more before the first send belongs to another operation. An item from
	// less than five minutes before may be the operation's. An item between these limits makes the look-up
	// inconclusive, because a clock may have been wrong.
	Created string

	// Next says how to request the next page.
	Next Paging

	// Means lists the meanings of the object's states. The first match counts. If none matches, the request
	// took effect, but the object differs from the answer of a create (see SameShape).
	Means []Meaning

	// Fetch is a template of the path for a GET of the object itself. Means and SameShape then apply to the
	// fetched object. Empty means that they apply to the item.
	Fetch string

	// SameShape says that the object has the shape of a create's answer. If one of Means says that it took
	// effect, it becomes the operation's answer. An object in another state completes the operation by its id
	// alone.
	SameShape bool

	// Horizon is the age after which the look-up may no longer show an object, whether or not it was created.
	// It is for the operator who judges a look-up that found nothing. Zero means no limit.
	Horizon time.Duration

	// Needs is the permission that the look-up requires, if it differs from the permission to create objects.
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

	// ByParent: the object belongs to another object that the request names, like a refund to its payment.
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

	// Param is the query parameter for the next page. In a look-up with a Body it is the dotted path of a
	// JSON field, or the name of a form field. The first request is sent without it, except that numbered
	// pages send their number. PageLink does not use it.
	Param string

	// Cursor is the path of the next page's cursor for PageCursor, or of its URL for PageLink. For PageHeader
	// it is the header's name. A missing, null or empty cursor marks the last page. For PageLastID it is the
	// path in an item of the id to send back. Default for PageLastID: the ID of the look-up.
	Cursor string

	// More, if not empty, is the path of a boolean that is false on the last page. It must exist. If the path ends
	// in [], it is an array of links instead, and a link whose rel is "next" says that the list goes on. Without More,
	// PageLastID ends at a page with fewer items than Size, and PageOffset and PageNumber at a page without
	// items.
	More string

	// Size is the maximum number of items on a page that the look-up asks for. A single page that is full, or that
	// goes on by More, may have been cut there, and then shows nothing of the rest.
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

	// PageLink: a field of the answer is the URL of the next page. Only its query is used, and only if its
	// host and path are the look-up's.
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

// Meaning is the meaning of an object's state for the request that created it.
type Meaning struct {
	// Field is a path in the object, and Equals its text, compared exactly. If Equals is empty, the field
	// must exist. In an array one element is enough, unless the meaning is Refused: all elements must mean it.
	Field, Equals string

	// Is is the meaning.
	Is Outcome
}

// Outcome is the outcome of a request, as an object or an event shows it.
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
