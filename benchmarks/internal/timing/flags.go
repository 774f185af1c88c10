package timing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Numbers returns the positive numbers of a flag, with commas between.
func Numbers(flag, list string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q is no number above 0", flag, part)
		}
		all = append(all, n)
	}
	return all, nil
}

// Choose returns the contenders that the flag -only names, with commas between, or all if it names none.
func Choose[C any](all []C, names string, nameOf func(C) string) ([]C, error) {
	if names == "" {
		return all, nil
	}
	var chosen []C
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(c C) bool { return nameOf(c) == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// OnDisk returns an error for a folder in memory: a commit costs nothing there.
func OnDisk(folder string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return fmt.Errorf("what disk is %s on: %w", folder, err)
	}
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	if kind := uint32(fs.Type); kind == tmpfs || kind == ramfs {
		return fmt.Errorf("%s is in memory, where a commit costs nothing: give -dir a folder on a disk", folder)
	}
	return nil
}
