package server

// A role needs all privileges on the tables. Sequences give handles.
var (
	tables    = []string{"sessions", "lanes", "operations", "names", "requests", "answers", "marks", "heard", "flows", "flow_steps", "receipts", "heads", "bookmarks"}
	Sequences = []string{"handles", "receipt_handles", "flow_handles"}
)
