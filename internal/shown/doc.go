// Package shown renders a journal for people, on a terminal or a page. It quotes texts from anywhere. It shows bodies
// as their shape, or with secrets masked. It says how long an operation may still be resent, and why the operation is
// or is not sent. Nothing in it writes, and Before alone reads. All of it is safe for concurrent use.
package shown
