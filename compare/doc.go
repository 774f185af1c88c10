// Package compare compares the objects that a provider lists with journals' operations. It reports the differences,
// and changes nothing.
//
// Reconciliation asks what became of one unknown operation. A comparison asks whether the provider has what the
// journals have. It finds a payment made twice by the provider, a payment with another amount, and a completed
// operation whose object the provider lacks.
//
// Run reads journals only. It works beside the applications that use the journals.
package compare
