package providers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

func repeatableContract() contract {
	const (
		send = "POST https://repeatable.example.com/emails:send"

		accepted, refused = "Repeatability-Result: accepted", "Repeatability-Result: Rejected"
	)
	return contract{
		adapter: providers.Repeatable(5*time.Minute, "repeatable.example.com"),
		terms: []terms{{
			requests: []string{send, "PATCH https://repeatable.example.com/rooms/1", "DELETE https://repeatable.example.com/rooms/1"},
			key:      "raw header Repeatability-Request-ID, with Repeatability-First-Sent", refuses: []string{`"` + conformanceKey + `"`},
			retention: 5 * time.Minute, remembers: cleanFailures,
		}},
		sent: []sent{{
			send + "\n\n{}",
			"POST /emails:send HTTP/1.1\nHost: repeatable.example.com\nContent-Length: 2\nRepeatability-First-Sent: Fri, 20 Nov 2026 12:00:00 GMT\nRepeatability-Request-Id: " + conformanceKey + "\n\n{}",
		}},
		answers: []answers{
			{send, refusedRows},
			{send, passingRows},
			{send, badInputAnyForm},
			{send, []row{
				{"executed, now or before", 202, accepted, "", final, final},
				{"a success by a server that did not look", 202, "", "", final, final},
				{"outside the tracked window", 412, refused, "", rejected, indeterminate},
				{"a precondition of the request's own", 412, "", "", final, indeterminate},
				{"another request under the ID", 400, refused, "", misuse, misuse},
				{"in progress, or a conflict that is stored", 409, accepted, "", retry, retry},
				{"a conflict by a server that does not say what it is with", 409, "", "", indeterminate, indeterminate},
				{"a stored refusal", 422, accepted, "", final, final},
				{"a refusal by a server that did not look", 422, "", "", final, indeterminate},
				{"not supported here", 501, "", "", rejected, indeterminate},
				{"500, which a repeat executes again", 500, accepted, "", retry, retry},
				{"503", 503, "", "", retry, retry},
			}},
		},
	}
}

func TestRepeatableNeedsATrackedWindow(t *testing.T) {
	assert.Error(t, providers.Repeatable(0, "repeatable.example.com").Validate())
}

// Repeatable requests are sent again where the server is said to guard them.
func TestRepeatableRequestsAreSentAgain(t *testing.T) {
	p := providers.Repeatable(5*time.Minute, "repeatable.example.com")
	p.Endpoints[0].InFlightGuard = true
	assert.NoError(t, p.Validate())
	assert.Equal(t, 3*time.Minute+45*time.Second, termsOf(p.Endpoints[0]).Window())
}
