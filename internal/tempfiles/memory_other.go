//go:build !linux

package tempfiles

import (
	"errors"
	"os"
)

func folder() string { return "" }

func within(string) (dir string, lock *os.File, err error) { return "", nil, errors.ErrUnsupported }
