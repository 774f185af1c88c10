// Package sessionfile is what stands in the file by whose lock a session of a journal in a file
// is alive: which file it is, and beside which journal. The lock of a copy that somebody put in
// its place says nothing of who has that of the other.
package sessionfile

import (
	"io/fs"
	"strings"
)

// Text is what is written to a session's file; "" where files have no numbers.
func Text(session, journal fs.FileInfo) string {
	is, beside := number(session), number(journal)
	if is == "" || beside == "" {
		return ""
	}
	return is + " beside " + beside + "\n"
}

// IsCopy tells whether a session's file with this text was put in the place of the one that was
// made for it. A journal that was moved with all that lies beside it is another file, too: then
// it is none. Nor is one without a text, as older releases left it.
func IsCopy(text string, session, journal fs.FileInfo) bool {
	is, beside, ok := strings.Cut(strings.TrimSuffix(text, "\n"), " beside ")
	return ok && beside == number(journal) && is != number(session)
}
