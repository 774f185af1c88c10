// Package reconcile finds out what became of unknown operations. It asks the provider by the look-ups of its table, hears the
// provider's events, and records both as evidence. It also asks for the account behind a credential.
//
// The package knows core, and requests as package wire has them. It knows no attempt and no claim, and of a caller only the
// request whose credentials it uses. It never sends an operation. Its callers say when it looks in the background.
package reconcile
