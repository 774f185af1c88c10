// Command onceward looks at a journal beside the application that uses it, and says what somebody
// has found out: which operations are open and why, what a provider may still remember, what became
// of one that is unknown.
//
// It makes no file, migrates none, sends nothing, holds no session and moves no WAL; what it writes,
// it writes by the same events as a client does. docs/command.md has the verbs, the exit codes and
// what is promised of the JSON.
package main
