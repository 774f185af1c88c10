// Package vendorsdk holds tests of Onceward below vendors' SDKs, which make up keys
// and retry by themselves: stripe-go, a PayPal client and Svix's. It is a module of
// its own, so that they are no dependencies of the library.
package vendorsdk
