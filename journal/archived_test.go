package journal_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/journal"
)

// An archived operation has its answer, and bodies only if the options ask for them.
func TestArchivedBodies(t *testing.T) {
	op := journal.Operation{State: journal.StateCompleted, Request: journal.Request{Method: "POST", Body: []byte("amount=1")}}
	assert.Nil(t, journal.ArchivedOf(&op, true).Answer)
	op.Answer = &journal.Answer{Generation: 1, Status: 402, Header: http.Header{"A": {"b"}}, Body: []byte("declined"), Refused: true}
	with := journal.ArchivedOf(&op, true)
	assert.Equal(t, op.Request.Body, with.Request.Body)
	assert.Equal(t, &journal.ArchivedAnswer{Generation: 1, Status: 402, Header: op.Answer.Header, Body: []byte("declined"), Refused: true}, with.Answer)
	without := journal.ArchivedOf(&op, false)
	assert.Nil(t, without.Request.Body)
	assert.Equal(t, &journal.ArchivedAnswer{Generation: 1, Status: 402, Header: op.Answer.Header, Refused: true}, without.Answer)
}
