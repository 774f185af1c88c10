package onceward

import "time"

// SetClock replaces the client's clock before its first use.
func SetClock(c *Client, clock func() time.Time) { c.clock = clock }
