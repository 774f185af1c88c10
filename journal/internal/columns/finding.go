package columns

import "github.com/onceward/onceward/journal/internal/rowstore"

// Finding gathers the rows that rowstore.Keys select.
type Finding struct {
	Keys  rowstore.Keys
	Found rowstore.Found
	Rows  map[int64]*rowstore.Row // by their handles
}

// NewFinding returns a Finding without rows.
func NewFinding(keys rowstore.Keys) Finding {
	found := rowstore.Found{Names: make(map[rowstore.Digest]int64, len(keys.Names)), Marks: make(map[int64][]int64, len(keys.Marks))}
	return Finding{Keys: keys, Rows: make(map[int64]*rowstore.Row), Found: found}
}

// Row reads an operation's columns in the order of the Scan below. An empty holder means none, and so does a settled time
// of 0. A wake time may be NULL.
func (f *Finding) Row(row Row) error {
	r := new(rowstore.Row)
	var state int16
	var wake *int64
	var provider []byte
	if err := row.Scan(&r.Handle, &state, &r.Holder, &wake, &r.Settled, &r.Told, &r.Reaped, &provider, &r.Record); err != nil {
		return err
	}
	r.State, r.Provider = uint8(state), string(provider)
	if wake != nil {
		r.HasWake, r.Wake = true, *wake
	}
	if f.Rows[r.Handle] == nil {
		f.Rows[r.Handle] = r
	}
	return nil
}

// Name reads a name's digest and handle.
func (f *Finding) Name(row Row) error {
	n, err := Name(row)
	if err == nil {
		f.Found.Names[n.Digest] = n.Handle
	}
	return err
}

// Mark reads a mark and a handle.
func (f *Finding) Mark(row Row) error {
	m, err := Mark(row)
	if err == nil {
		f.Found.Marks[m.Mark] = append(f.Found.Marks[m.Mark], m.Handle)
	}
	return err
}

// Request reads the handle of a row that was read, and the head and the body of its request.
func (f *Finding) Request(row Row) error {
	return f.part(row, func(r *rowstore.Row) **rowstore.Part { return &r.Request })
}

// Answer is Request for the answer.
func (f *Finding) Answer(row Row) error {
	return f.part(row, func(r *rowstore.Row) **rowstore.Part { return &r.Answer })
}

func (f *Finding) part(row Row, of func(*rowstore.Row) **rowstore.Part) error {
	var handle int64
	p := new(rowstore.Part)
	if err := row.Scan(&handle, &p.Head, &p.Body); err != nil {
		return err
	}
	if r := f.Rows[handle]; r != nil {
		*of(r) = p
	}
	return nil
}
