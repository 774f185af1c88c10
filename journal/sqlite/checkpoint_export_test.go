package sqlite

import "runtime"

// Checkpointed returns once the checkpointer has done what it was woken for.
func Checkpointed(j *Journal) {
	p := j.file.checkpoint
	for len(p.wake) > 0 {
		runtime.Gosched()
	}
	p.commit <- struct{}{}
	for len(p.commit) > 0 { // which it sees when it is back
		runtime.Gosched()
	}
}
