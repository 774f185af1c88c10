package mysql

import (
	"time"

	"github.com/onceward/onceward/journal/internal/leased"
)

// Patient makes a session outlive a server that a busy machine restarts slowly.
func Patient(opts *Options) {
	opts.pace = leased.Pace{TTL: time.Minute, Beat: leased.UsualPace.Beat, Again: leased.UsualPace.Again, Lost: 50 * time.Second}
}

// Hasten gives handlers and sessions less time.
func Hasten(opts *Options) {
	opts.handler = 300 * time.Millisecond
	opts.pace = leased.Pace{TTL: 3 * time.Second, Beat: 300 * time.Millisecond, Again: 100 * time.Millisecond, Lost: 2400 * time.Millisecond}
}
