package record

// Scanner is what a row is read by: of pgx and of database/sql alike.
type Scanner interface{ Scan(dest ...any) error }

// KeepFirst returns a scanner that keeps the first column too, for rows that can't be understood.
func KeepFirst(from Scanner, handle *int64) Scanner { return firstKept{from, handle} }

type firstKept struct {
	Scanner
	handle *int64
}

func (f firstKept) Scan(dest ...any) error {
	err := f.Scanner.Scan(dest...)
	if first, ok := dest[0].(*int64); ok && err == nil {
		*f.handle = *first
	}
	return err
}

// WithFirst returns a scanner that reads a column which stands before the others.
func WithFirst(from Scanner, first any) Scanner { return firstRead{from, first} }

type firstRead struct {
	Scanner
	first any
}

func (f firstRead) Scan(dest ...any) error {
	return f.Scanner.Scan(append([]any{f.first}, dest...)...)
}

// WithLast returns a scanner that reads columns which stand behind the others.
func WithLast(from Scanner, last ...any) Scanner { return lastRead{from, last} }

type lastRead struct {
	Scanner
	last []any
}

func (l lastRead) Scan(dest ...any) error { return l.Scanner.Scan(append(dest, l.last...)...) }
