package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

func aip155Contract() contract {
	const (
		create = "POST https://aip155.example.com/v1/publishers/1/books"

		google = "Content-Type: application/json; charset=UTF-8"
	)
	code := func(code string) string { return `{"error":{"code":0,"message":"…","status":"` + code + `"}}` }
	return contract{
		adapter: providers.AIP155(providers.KeyQuery, day, "aip155.example.com"),
		terms: []terms{{
			requests: []string{create, "PATCH https://aip155.example.com/v1/publishers/1/books/2", "DELETE https://aip155.example.com/v1/publishers/1/books/2"},
			key:      "query parameter requestId", max: 36,
			retention: day, remembers: cleanFailures, guard: true, resent: true,
		}},
		sent: []sent{
			{
				create + "\n\n{\"title\":\"x\"}",
				"POST /v1/publishers/1/books?requestId=" + conformanceKey + " HTTP/1.1\nHost: aip155.example.com\nContent-Length: 13\n\n{\"title\":\"x\"}",
			},
			{
				create + "?bookId=2&requestId=0b4e6d2e-0b4e-4d2e-8b4e-6d2e0b4e6d2e&validateOnly=false\n\n{}",
				"POST /v1/publishers/1/books?bookId=2&requestId=" + conformanceKey + "&validateOnly=false HTTP/1.1\nHost: aip155.example.com\nContent-Length: 2\n\n{}",
			},
		},
		answers: []answers{
			{create, refusedRows},
			{create, []row{
				{"a book, or the book as it is now", 200, "", `{"name":"books/2"}`, final, final},
				{"a redirect", 302, "Location: /elsewhere", "", indeterminate, indeterminate},
				{"UNAVAILABLE", 503, google, code("UNAVAILABLE"), retry, retry},
				{"503 without a code", 503, "Content-Type: text/html", html, retry, retry},
				{"UNAUTHENTICATED", 401, google, code("UNAUTHENTICATED"), rejected, rejected},
				{"PERMISSION_DENIED", 403, google, code("PERMISSION_DENIED"), rejected, rejected},
				{"ABORTED", 409, google, code("ABORTED"), final, indeterminate},
				{"ALREADY_EXISTS", 409, google, code("ALREADY_EXISTS"), final, indeterminate},
				{"409 without a code", 409, "", "", indeterminate, indeterminate},
				{"FAILED_PRECONDITION", 400, google, code("FAILED_PRECONDITION"), final, indeterminate},
				{"INVALID_ARGUMENT", 400, google, code("INVALID_ARGUMENT"), final, indeterminate},
				{"NOT_FOUND", 404, google, code("NOT_FOUND"), final, indeterminate},
				{"OUT_OF_RANGE", 400, google, code("OUT_OF_RANGE"), final, indeterminate},
				{"RESOURCE_EXHAUSTED", 429, google, code("RESOURCE_EXHAUSTED"), final, indeterminate},
				{"UNIMPLEMENTED", 501, google, code("UNIMPLEMENTED"), final, indeterminate},
				{"CANCELLED", 499, google, code("CANCELLED"), indeterminate, indeterminate},
				{"DEADLINE_EXCEEDED", 504, google, code("DEADLINE_EXCEEDED"), indeterminate, indeterminate},
				{"INTERNAL", 500, google, code("INTERNAL"), indeterminate, indeterminate},
				{"UNKNOWN", 500, google, code("UNKNOWN"), indeterminate, indeterminate},
				{"429 without a code", 429, "", "", indeterminate, indeterminate},
				{"500 that is a page", 500, "Content-Type: text/html", html, indeterminate, indeterminate},
			}},
		},
	}
}

// AIP-155 takes the request ID in the body where that is the whole message.
func TestAIP155TakesTheRequestIDInTheBody(t *testing.T) {
	const run = "POST https://aip155.example.com/v1/jobs/1:run"
	s := suite{router: newRouter(t, providers.AIP155(providers.KeyJSONField, day, "aip155.example.com"))}
	assert.Equal(t,
		"POST /v1/jobs/1:run HTTP/1.1\nHost: aip155.example.com\nContent-Length: 75\n\n{\"requestId\":\""+conformanceKey+"\",\"big\":9007199254740993}",
		wire(t, s.route(t, run+"\n\n{\"big\":9007199254740993}"), run+"\n\n{\"big\":9007199254740993}"))
}

func TestAIP155NeedsATimeframe(t *testing.T) {
	assert.Error(t, providers.AIP155(providers.KeyQuery, 0, "aip155.example.com").Validate())
}
