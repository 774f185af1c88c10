// Package rowstore is a journal over the rows of any database. It has every rule of a store: requests that arrive
// together share a transaction, journal.Next decides on each, and the rows that changed are written. A Driver reads,
// locks and writes rows, and knows no rule.
//
// The package keeps no rows in memory. Each transaction finds and locks the rows that it decides on.
package rowstore
