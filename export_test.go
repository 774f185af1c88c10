package onceward

import (
	"time"
)

// SetClock replaces the client's clock before its first use.
func SetClock(c *Client, clock func() time.Time) { c.clock = clock }

// ExchangesSecrets and IsTidyTokenRequest are what a request for a token is told by.
var (
	ExchangesSecrets   = exchangesSecrets
	IsTidyTokenRequest = isTidyTokenRequest
)
