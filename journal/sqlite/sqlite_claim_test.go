//go:build unix

package sqlite_test

import ()
