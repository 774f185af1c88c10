// Package throttle decides what Run and Resume, and the calls of flows that they run, may send now. There are two
// levels: a site, and one scope and account at the site. Each counts what is under way and has a circuit breaker. While
// a breaker is open, one operation at a time is let through as a probe, at gaps that grow. After the first success it
// closes, and the gaps from one start to the next shrink until there is none.
//
// Answers of 5xx, and attempts without an answer, open a site's breaker. A refused credential and 429 answers open a
// scope's breaker. A missing credential opens neither: the limiter keeps back only the operations of the scope that
// need the credential.
//
// The callers' own calls ask for no permit. The package does no I/O, starts no goroutine and reads no clock.
package throttle
