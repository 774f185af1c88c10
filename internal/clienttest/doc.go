// Package clienttest holds the tests of the client through its public API, in a package for each subject:
//
//   - request: the way of a request,
//   - background: Run and Resume, deliveries and throttling,
//   - reconcile: look-ups, events and resolutions,
//   - catchup: events that a provider lists,
//   - missed: lost webhooks in a kill storm, and the comparison afterwards,
//   - objects: objects that a provider lists, compared with a journal,
//   - inbound: requests that arrive with a key,
//   - promises: faults, crashes, clocks and the resend rule.
//
// Package oncetest has the words that the tests share. Each package gives them short names in words_test.go.
package clienttest
