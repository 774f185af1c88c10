// Package cmem reaches what SQLite, which was translated from C, has outside Go's memory: values, and pointers to functions.
package cmem

import (
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// At is the C memory at an address.
func At[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// Call returns the function behind a pointer in C memory.
func Call[F any](pointer uintptr) F {
	holder := struct{ pointer uintptr }{pointer}
	return *(*F)(unsafe.Pointer(&holder))
}

// PointerTo returns a pointer in C memory to a function. It must be one of a package's functions, since the collector does
// not look there.
func PointerTo[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// CopyOf copies v to C memory, for good. It returns 0 and nil if no memory is left.
func CopyOf[T any](tls *libc.TLS, v *T) (uintptr, *T) {
	address := sqlite3.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(*v)))
	if address == 0 {
		return 0, nil
	}
	*At[T](address) = *v
	return address, At[T](address)
}
