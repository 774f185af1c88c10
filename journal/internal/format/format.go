// Package format encodes and decodes the bytes in a journal's file or database: operations as rows, as log records and
// as block parts, flows and their steps, the hashes of a segment's names, and checksums. It reads and writes no file. A
// decoded value shares memory with the input unless the function says otherwise.
package format
