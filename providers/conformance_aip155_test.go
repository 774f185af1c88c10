package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

func aip155Contract() contract {
	const create = "POST https://aip155.example.com/v1/publishers/1/books"
	return contract{
		adapter: providers.AIP155(providers.KeyQuery, day, "aip155.example.com"),
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
