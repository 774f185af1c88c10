// Package engine has the way of a request that may have an effect: identify, read, begin, attempt, judge, record and answer.
// [Engine.Do] reads in this order, and most stages have a file of their name.
//
// It knows a request, the contract that it is under, the claim of its operation and the attempts of that claim. It begins an
// operation, or sends it again, only by the journal's decision and by machine.MaySend. It does not know which operations are
// due in the background, how a look-up works, or which hook gets an outcome. It knows no type of package onceward: that package
// makes its own errors and operations of an [Answer] and a [Failure].
package engine
