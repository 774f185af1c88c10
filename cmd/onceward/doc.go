// Command onceward inspects a journal beside the application that uses it, and records decisions. It shows operations
// without an outcome, why each has none, and what its provider may still remember. It records what became of an unknown
// operation.
//
// It makes no file, migrates none, sends nothing, holds no session and checkpoints no WAL. It writes by the same
// events as a client. docs/command.md has the verbs, the exit codes and the stable part of the JSON.
package main
