// Package throttle decides what Run and Resume, and the calls of flows that they run, may send now. It has two levels: a
// site, and one scope and account at it. Each counts what is under way and has a circuit breaker. While a breaker is open,
// one operation at a time is let through as a probe, at gaps that grow. After the first success it closes, and the gaps
// from one start to the next shrink until there is none.
//
// Answers of 5xx, and attempts without an answer, open a site's breaker. A refused credential and answers of 429 open the
// breaker of a scope. A credential that can't be supplied opens neither: only the operations of the scope that need it are
// kept back.
//
// The callers' own calls ask for no permit. The package does no I/O, starts no goroutine and reads no clock.
package throttle
