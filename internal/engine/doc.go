// Package engine has the way of a request that may have an effect: identify, read, begin, attempt, judge, record and
// answer. [Engine.Do] reads in this order.
//
// Package call has the stages before the claim, and package run the stages after the claim. Neither knows the other:
// only begin knows both, and hands a [call.Call]'s request to a [run.Run]. Both use the types of package
// exchange.
//
// The engine knows a request, its contract, its operation's claim, and the claim's attempts. The engine begins or
// resends an operation only by the journal's decision and by machine.MaySend. The background decides which operations
// are due, package reconcile how to look for one, and package delivery which hook gets an outcome. The engine knows no
// type of package onceward, which makes its own errors and operations from an [exchange.Answer] and an
// [exchange.Failure].
package engine
