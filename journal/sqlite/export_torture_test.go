package sqlite

// SyncNormally has journals that are opened from now on work with synchronous=NORMAL,
// until restore is called.
func SyncNormally() (restore func()) {
	for i, p := range writerPragmas {
		if p.name == "synchronous" {
			writerPragmas[i] = pragma{p.name, "NORMAL", "1"}
			return func() { writerPragmas[i] = p }
		}
	}
	panic("no such pragma")
}
