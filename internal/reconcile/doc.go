// Package reconcile finds the outcomes of unknown operations. The package asks the provider by the table's look-ups,
// hears the provider's events, and records both as evidence. The package also asks for the account behind a
// credential.
//
// The package knows core, and requests as package wire has them. The package knows no attempt and no claim, and uses
// a caller's request only for credentials. The package never sends an operation. Callers decide when to look in the
// background.
package reconcile
