package timing

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Used is the processor time that was used so far.
type Used struct {
	Own      time.Duration // of this process
	Database time.Duration // of the PostgreSQL server's processes that live
}

// UsedBy has no database time if postmaster is 0.
func UsedBy(postmaster int) (u Used, err error) {
	if u.Own, err = Own(); err != nil || postmaster == 0 {
		return u, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", postmaster))
	for _, pid := range strings.Fields(string(children)) {
		var ran int64 // nanoseconds
		text, err := os.ReadFile("/proc/" + pid + "/schedstat")
		switch {
		case errors.Is(err, os.ErrNotExist): // it has ended meanwhile
			continue
		case err != nil:
			return u, err
		}
		if _, err := fmt.Sscan(string(text), &ran); err != nil {
			return u, err
		}
		u.Database += time.Duration(ran)
	}
	return u, err
}

// Own is the processor time that this process has used, in user and system mode.
func Own() (time.Duration, error) {
	var own syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	return time.Duration(own.Utime.Nano() + own.Stime.Nano()), err
}
