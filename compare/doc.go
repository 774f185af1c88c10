// Package compare compares the objects that a provider lists with the operations of journals. It reports the differences,
// and changes nothing.
//
// Reconciliation asks what became of one unknown operation. A comparison asks whether the provider has what the journals
// have. It finds a payment that the provider made twice, a payment of another amount, and a completed operation whose
// object the provider does not have.
//
// Run reads journals only. It works beside the applications that use the journals.
package compare
