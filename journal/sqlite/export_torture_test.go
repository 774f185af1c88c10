package sqlite

import "github.com/onceward/onceward/journal/sqlite/internal/conn"

// SyncNormally makes journals that are opened from now on use synchronous=NORMAL, until restore is called.
func SyncNormally() (restore func()) {
	for i, p := range writerPragmas {
		if p[0] == "synchronous" {
			writerPragmas[i] = conn.Pragma{p[0], "NORMAL", "1"}
			return func() { writerPragmas[i] = p }
		}
	}
	panic("no such pragma")
}
