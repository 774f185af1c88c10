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

// Mark has the sidecar name the latest commit, as it is done every few seconds.
func Mark(j *Journal) error { return j.file.checkpoint.mark() }

// MarkAlways has that done as often as possible, in journals opened from now on.
func MarkAlways() { sidecarAfter = 0 }

// Sidecar reads the text of a sidecar and writes it again.
func Sidecar(text string) (string, error) {
	s, err := parseSidecar(text)
	return s.String(), err
}
