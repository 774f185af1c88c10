// Package status has what RFCs say of a status code, whichever server sends it.
package status

// Fact is a fact that an RFC states of one status code.
type Fact struct {
	Code   int
	Source string
}

// Refused are the status codes of an answer that says, from any HTTP server, that it refused a request and did not
// apply it.
var Refused = []Fact{
	{401, sourceRefused},
	{403, sourceRefused},
	{407, sourceRefused},
}

const sourceRefused = "RFC 9110 sections 15.5.2, 15.5.4 and 15.5.8: refused, not applied [D]"

// Passing are the client errors that stand for a passing condition at any HTTP server.
// They come before a rule that takes the other 4xx for an answer.
var Passing = []Fact{
	{408, "RFC 9110 section 15.5.9: the client may repeat the request [D]"},
	{425, "RFC 8470 section 5.2: the client may repeat the request [D]"},
	{429, "RFC 6585 section 4 does not say whether the request was executed [D]"},
}
