// Package rowstore is a journal over any database's rows. The package has every store rule. A Driver reads, locks and
// writes rows, and knows no rule.
//
// Requests that arrive together share a transaction (group). A batch finds and locks the rows for the requests'
// names, runs machine.Next on each operation, and writes the changed rows. If one row causes an error, the batch
// commits the other rows alone. A request that meets a held row waits in a separate transaction (aside), and so do
// claims, reaps and other scans.
//
// The package keeps no rows in memory, so each decision reads committed rows. Parts that no index needs are encoded,
// with sums. A damaged row fails only requests for the same row.
package rowstore
