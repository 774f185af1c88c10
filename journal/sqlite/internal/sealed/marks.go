package sealed

import "github.com/onceward/onceward/journal/internal/store"

const (
	// MarkBucket is how many handles have their marks near each other.
	MarkBucket = 4096
	// FoundBucket has the marks by store.ByFound, and ReapedBucket those by store.ByReaped, of no operation.
	FoundBucket  = -1
	ReapedBucket = -2
)

// FindMarks selects the handles of one hash, bucket by bucket.
const FindMarks = `WITH RECURSIVE b(n) AS (SELECT (SELECT min(bucket) FROM onceward_marks WHERE bucket >= 0)
		UNION ALL SELECT (SELECT min(bucket) FROM onceward_marks WHERE bucket > n) FROM b WHERE n IS NOT NULL)
	SELECT handle FROM b CROSS JOIN onceward_marks WHERE bucket = n AND hash = ?`

// BucketOf returns the bucket of a mark of the operation with this handle.
func BucketOf(m store.Mark, handle int64) int64 {
	if m.By == store.ByFound {
		return FoundBucket
	}
	return handle / MarkBucket
}

// ContentsOf selects the contents of the segment that begins with first.
const ContentsOf = "SELECT hashes FROM onceward_contents WHERE first = ?"
