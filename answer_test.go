package onceward_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward"
)

func TestAReplayCarriesNoSetCookie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(200, paid, "Set-Cookie", "a=b", "X-Request-Id", "req_1"))
		p := start(t, l, onceward.Config{})
		first, second := p.Ask(named(t, "invoice-1/charge")), p.Ask(named(t, "invoice-1/charge"))
		assert.Equal(t, "a=b", first.Header.Get("Set-Cookie"))
		assert.Empty(t, second.Header.Get("Set-Cookie"))
		assert.Equal(t, "req_1", second.Header.Get("X-Request-Id"))
	})
}
