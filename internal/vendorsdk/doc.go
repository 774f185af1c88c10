// Package vendorsdk holds tests of Onceward below a vendor's SDK that retries by
// itself. It is a module of its own, so that the SDK is no dependency of the
// library.
package vendorsdk
