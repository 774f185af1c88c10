// Package sessionfile is what stands in the file by whose lock a session of a journal in a file
// is alive: which file it is, and beside which journal. The lock of a copy that somebody put in
// its place says nothing of who has that of the other.
package sessionfile

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Describe has the session's file of that name, which is that one, say which one it is, and beside
// which journal. Nothing has to outlast a loss of power, which ends every session.
func Describe(journal, name string, is fs.FileInfo) error {
	beside, err := os.Stat(journal)
	if err != nil {
		return err
	}
	here, there := number(is), number(beside)
	if here == "" || there == "" { // files have no numbers
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(here + " beside " + there + "\n")
	return errors.Join(err, f.Close())
}

// IsCopy tells whether the session's file of that name, which is that one, was put in the place of
// the one that was made for it. A journal that was moved with all that lies beside it is another file,
// too: then it is none. Nor is one without a text, as older releases left it.
func IsCopy(journal, name string, is fs.FileInfo) bool {
	text, err := os.ReadFile(name)
	if err != nil {
		return false
	}
	beside, err := os.Stat(journal)
	if err != nil {
		return false
	}
	here, there, ok := strings.Cut(strings.TrimSuffix(string(text), "\n"), " beside ")
	return ok && there == number(beside) && here != number(is)
}
