// Command onceward inspects a journal beside the application that uses it, and records decisions: which operations
// have no outcome and why, what a provider may still remember, what became of an unknown operation.
//
// It makes no file, migrates none, sends nothing, holds no session and checkpoints no WAL. It writes by the same
// events as a client. docs/command.md has the verbs, the exit codes and the stable part of the JSON.
package main
