package providers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

func repeatableContract() contract {
	const send = "POST https://repeatable.example.com/emails:send"
	return contract{
		adapter: providers.Repeatable(5*time.Minute, "repeatable.example.com"),
		sent: []sent{{
			send + "\n\n{}",
			"POST /emails:send HTTP/1.1\nHost: repeatable.example.com\nContent-Length: 2\nRepeatability-First-Sent: Fri, 20 Nov 2026 12:00:00 GMT\nRepeatability-Request-Id: " + conformanceKey + "\n\n{}",
		}},
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
