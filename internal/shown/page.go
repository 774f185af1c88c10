package shown

import "iter"

// Page returns the rows of the entries that fit, at most limit. It reports whether others follow. A nil fits takes every
// entry.
func Page[T, R any](list iter.Seq2[T, error], limit int, fits func(*T) bool, row func(*T) R) (rows []R, more bool, err error) {
	rows = []R{}
	for one, err := range list {
		switch {
		case err != nil:
			return nil, false, err
		case fits != nil && !fits(&one):
		case len(rows) == limit:
			return rows, true, nil
		default:
			rows = append(rows, row(&one))
		}
	}
	return rows, false, nil
}
