// Package engine has the way of a request that may have an effect: identify, read, begin, attempt, judge, record and answer.
// [Engine.Do] reads in this order.
//
// Package call has the stages before the claim, and package run those after the claim. Neither knows the other: only begin knows
// both, and hands the request of a [call.Call] to a [run.Run]. They share the types of package exchange.
//
// The engine knows a request, its contract, the claim of its operation, and the attempts of the claim. The engine begins
// an operation, or sends it again, only by the journal's decision and by machine.MaySend. It does not know which operations are
// due in the background, how a look-up works, or which hook gets an outcome. It knows no type of package onceward: that package
// makes its own errors and operations of an [exchange.Answer] and an [exchange.Failure].
package engine
