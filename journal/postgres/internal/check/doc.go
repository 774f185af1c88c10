// Package check asks a server whether a journal is safe on it, and which server it is.
//
//   - Server, Text and Tables return an error, ErrUnsafe, that says what to set.
//   - StartOf and PlaceOf tell one server, or one state of it, from another.
//   - Grants names the privileges that a role lacks.
//
// The package knows settings, functions and catalogs of PostgreSQL. It must not know what the journal's tables hold,
// and does not decide what follows from a server that is another than before.
package check
