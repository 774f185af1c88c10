package providertest

import (
	"bytes"
	"net/http"

	"github.com/onceward/onceward/internal/tables"
)

// call is one request on its way through the server.
type call struct {
	r      *http.Request
	fault  Fault
	entry  *entry
	body   []byte
	route  tables.Route
	manner Manner
	key    string
	keyed  bool
	keyErr error
	world  world

	straggles bool
}

func (c *call) message() tables.Message {
	return tables.Message{Header: c.r.Header, Query: c.r.URL.RawQuery, Body: c.body}
}

func (c *call) observed() Request {
	return Request{
		Number: c.entry.number,
		Method: c.r.Method,
		Path:   c.r.URL.Path,
		Header: c.r.Header.Clone(),
		Body:   bytes.Clone(c.body),
		Key:    c.key,
		Fault:  c.fault,
	}
}

func (c *call) malformed() Answer {
	if c.manner.Malformed != nil {
		return c.manner.Malformed.clone()
	}
	return c.error(http.StatusBadRequest, c.keyErr.Error())
}

// maxBody is how large a request may be, in bytes.
const maxBody = 64 << 20
