package sqlite

import "github.com/onceward/onceward/journal"

// Kill drops a session of j's as the end of its process would.
func Kill(s journal.Session) { s.(*session).leave() }

// Dial opens a connection with one pragma and closes it.
func Dial(path, pragmaName, value, want string) error {
	c, err := dial(path, []pragma{{pragmaName, value, want}})
	if err != nil {
		return err
	}
	return c.close()
}

// SegmentSize is how many operations make a segment.
const SegmentSize = segmentSize

// SchemaVersion is the latest one.
var SchemaVersion = len(migrations)
