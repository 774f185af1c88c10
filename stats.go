package onceward

// Stats is how a client does at a moment: what it alone knows. The journal's own Stats are of
// all that share it.
type Stats struct {
	Running int // claims under way, of calls, Run and Resume
	Backlog int // events that the journal failed to record, and that are in memory alone
	Offers  int // outcomes that OnSettled has still to take, as far as this client knows

	// RetryBudget is by provider how much of Config.RetryBudget is used up, from 0 to 1; "" is
	// for hosts that no table serves.
	RetryBudget map[string]float64
}

// Stats tells how the client does. It asks nothing of the journal, and never fails.
func (c *Client) Stats() Stats {
	s := Stats{Running: c.core.Lifecycle.Running(), Backlog: c.core.Backlog.Len(), Offers: c.deliveries.Len(), RetryBudget: map[string]float64{}}
	now := c.core.Now()
	for name, b := range c.core.Budgets {
		s.RetryBudget[name] = b.Used(now)
	}
	return s
}
