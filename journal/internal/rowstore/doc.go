// Package rowstore is a journal over the rows of any database. It has every rule of a store. A Driver reads, locks and
// writes rows, and knows no rule.
//
// Requests that arrive together share a transaction (group). A batch finds and locks the rows of their names, runs
// machine.Next on each operation, and writes the rows that changed. If a row is to blame for an error, the others are
// committed without it. A request that meets a held row waits in a transaction of its own (aside), and so do claims, reaps
// and other scans.
//
// The package keeps no rows in memory, so each decision reads committed rows. Parts that no index needs are
// encoded, with sums. A damaged row fails its own requests alone.
package rowstore
