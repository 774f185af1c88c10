// Package format is what the bytes in a journal's file or database mean: operations as rows, as records
// of the log and as parts of blocks, flows and their steps, the hashes of names by segment,
// and the sums by which damage is noticed. It reads and writes no file. What it decodes
// shares memory with what it was given unless it says otherwise.
package format
