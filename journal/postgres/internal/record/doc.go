// Package record has the rows of the journal's tables: how operations, flows and receipts are read from them and
// written into them.
//
//   - Row, Scan and Encode are for operations, with Columns, InsertArgs and UpdateArgs in the order of the columns.
//   - ScanFlow, ScanStep and ScanReceipt are for flows, their steps, and receipts.
//   - Digest, MarkHash and Remarked are the hashes by which rows are found.
//
// The package knows package format, which encodes records for every store. It must not know a connection, a
// transaction, or the rules of package journal: it decides nothing.
package record
