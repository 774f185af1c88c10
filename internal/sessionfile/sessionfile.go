// Package sessionfile writes and reads the text of a session's file. In a file journal, a session is alive while its
// session file's lock is held. The text says which file it is, and beside which journal it lies. If a copy was put in
// the file's place, the copy's lock says nothing of the original's.
package sessionfile

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Describe writes into the session's file of that name which file it is and beside which journal it lies. is
// describes that file. The text need not survive a loss of power, which ends every session.
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

// IsCopy reports whether the session file with the name took the place of the original. is describes the file. It
// returns false if the journal was moved with all its files, since the journal is another file then too. It also
// returns false for a file without a text, as older releases left it.
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
