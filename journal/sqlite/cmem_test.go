package sqlite_test

import (
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// These functions reach what SQLite, which was translated from C, has outside Go's memory: values, and pointers to functions.

// at is the C memory at an address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// callOf returns the function behind a pointer in C memory.
func callOf[F any](pointer uintptr) F {
	holder := struct{ pointer uintptr }{pointer}
	return *(*F)(unsafe.Pointer(&holder))
}

// pointerTo returns a pointer in C memory to a function. It must be one of a package's functions, since the collector does
// not look there.
func pointerTo[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// copyOf copies v to C memory, for good. It returns 0 and nil if no memory is left.
func copyOf[T any](tls *libc.TLS, v *T) (uintptr, *T) {
	address := sqlite3.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(*v)))
	if address == 0 {
		return 0, nil
	}
	*at[T](address) = *v
	return address, at[T](address)
}
