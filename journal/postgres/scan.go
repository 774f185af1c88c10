package postgres

// scanner is what a row is read by: of pgx and of database/sql alike.
type scanner interface{ Scan(dest ...any) error }

// keepFirst returns a scanner that keeps the first column too, for rows that can't be understood.
func keepFirst(from scanner, handle *int64) scanner { return firstKept{from, handle} }

type firstKept struct {
	scanner
	handle *int64
}

func (f firstKept) Scan(dest ...any) error {
	err := f.scanner.Scan(dest...)
	if first, ok := dest[0].(*int64); ok && err == nil {
		*f.handle = *first
	}
	return err
}

// withFirst returns a scanner that reads a column which stands before the others.
func withFirst(from scanner, first any) scanner { return firstRead{from, first} }

type firstRead struct {
	scanner
	first any
}

func (f firstRead) Scan(dest ...any) error {
	return f.scanner.Scan(append([]any{f.first}, dest...)...)
}

// withLast returns a scanner that reads columns which stand behind the others.
func withLast(from scanner, last ...any) scanner { return lastRead{from, last} }

type lastRead struct {
	scanner
	last []any
}

func (l lastRead) Scan(dest ...any) error { return l.scanner.Scan(append(dest, l.last...)...) }
