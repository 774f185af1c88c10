// Package shown is what people are shown of a journal, on a terminal or a page: texts from anywhere
// quoted, bodies as their shape or with what is secret masked, how long an operation may still be
// resent, and why it is or is not sent. Nothing in it writes, and Before alone reads; all of it is safe
// for concurrent use.
package shown
