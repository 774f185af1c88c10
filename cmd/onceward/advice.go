package main

import "github.com/onceward/onceward/internal/shown"

// advice tells an operator about an operation or flow that needs attention.
type advice struct {
	What  string `json:"what" doc:"what happened"`
	Check string `json:"check" doc:"what to look at first"`
	Do    string `json:"do" doc:"what to do then"`
}

func adviceOf(a shown.Attention) *advice {
	if a == (shown.Attention{}) {
		return nil
	}
	return &advice{a.What, a.Check, a.Do}
}

func (a *advice) what() string {
	if a == nil {
		return ""
	}
	return a.What
}

// advice adds the rows below that of an operation or flow. Nothing of them is cut.
func (t *table) advice(a *advice, reason string) {
	if a == nil {
		return
	}
	for _, text := range []string{"check: " + a.Check, "to do: " + a.Do, "reason: " + shown.Text(reason)} {
		t.row("", "", "", "", "", "", text)
	}
}

// needsAttention adds the facts about an operation or flow that needs attention.
func (t *table) needsAttention(a *advice, reason string) {
	if a != nil {
		t.fact("needs attention", a.What)
		t.fact("check", a.Check)
		t.fact("to do", a.Do)
		t.fact("reason", shown.Text(reason))
	}
}
