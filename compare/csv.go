package compare

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"
)

// csvHeader is the one header for a list as CSV.
var csvHeader = []string{"id", "reference", "amount", "currency", "time"}

// maxRow is the longest row, in bytes.
const maxRow = 64 << 10

// CSVError says which list line can't be read, and why.
type CSVError struct {
	Line    int
	Problem string
}

func (e *CSVError) Error() string { return fmt.Sprintf("compare: line %d: %s", e.Line, e.Problem) }

// ReadCSV yields a list's objects as CSV (RFC 4180): UTF-8, separated by commas, with this first line:
//
//	id,reference,amount,currency,time
//
// The id and the time are required. The time is RFC 3339 with a zone. The reference is a mark (Object.Reference), or
// empty. The amount is a decimal number with a point, as of ParseDecimal, and the currency has three letters. Both may be
// empty. The amount in a currency without known decimals is left out (ErrDecimals). An object has no kind, and counts as
// one that took effect. A byte order mark, and lines that end in CR and LF, are allowed.
//
// Nothing is guessed. Another header, a thousands separator, another time format and a row over 64 KiB end the
// list with a *CSVError. ReadCSV holds one row, and does not close r.
func ReadCSV(r io.Reader) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		source := &bounded{r: r, left: 2 * maxRow}
		rows := csv.NewReader(source)
		rows.FieldsPerRecord, rows.ReuseRecord = -1, true
		for first := true; ; first = false {
			source.left = 2 * maxRow
			begin := rows.InputOffset()
			row, err := rows.Read()
			if err == io.EOF && !first {
				return
			}
			var o Object
			if err == nil {
				line, _ := rows.FieldPos(0)
				switch {
				case rows.InputOffset()-begin > maxRow:
					err = errLongRow
				case first:
					err = checkHeader(row)
				default:
					o, err = objectOf(row)
				}
				if err != nil {
					err = &CSVError{line, err.Error()}
				}
			} else {
				err = csvErrorOf(err)
			}
			if first && err == nil {
				continue
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

var errLongRow = errors.New("the row is longer than 64 KiB: is a quote left open before?")

// bounded reads at most left bytes. It skips a byte order mark.
type bounded struct {
	r     io.Reader
	left  int
	begun bool
}

func (b *bounded) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		head := make([]byte, 3)
		n, err := io.ReadFull(b.r, head)
		if head = head[:n]; !bytes.Equal(head, []byte("\ufeff")) {
			b.r = io.MultiReader(bytes.NewReader(head), b.r)
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
	}
	if b.left <= 0 {
		return 0, errLongRow
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// csvErrorOf returns the CSV reader's error with its line.
func csvErrorOf(err error) error {
	var of *csv.ParseError
	switch {
	case err == io.EOF:
		return &CSVError{1, "the list is empty: the first line is " + strings.Join(csvHeader, ",")}
	case !errors.As(err, &of):
		return fmt.Errorf("compare: the list could not be read: %w", err)
	case errors.Is(of.Err, csv.ErrBareQuote) || errors.Is(of.Err, csv.ErrQuote):
		return &CSVError{of.Line, "a quote stands where none may: quote the whole field, and double each quote in it"}
	}
	return &CSVError{of.Line, of.Err.Error()}
}

func checkHeader(row []string) error {
	want := strings.Join(csvHeader, ",")
	if got := strings.Join(row, ","); got != want {
		return fmt.Errorf("the first line is %.100q: it has to be %s", got, want)
	}
	return nil
}

func objectOf(row []string) (Object, error) {
	if len(row) != len(csvHeader) {
		return Object{}, fmt.Errorf("it has %d fields instead of %d", len(row), len(csvHeader))
	}
	for _, field := range row {
		if !utf8.ValidString(field) {
			return Object{}, errors.New("it is not UTF-8")
		}
		if strings.TrimSpace(field) != field || strings.ContainsAny(field, "\r\n") {
			return Object{}, fmt.Errorf("%.40q has white space at an end, or more than one line", field)
		}
	}
	o := Object{ID: strings.Clone(row[0]), Reference: strings.Clone(row[1])}
	if o.ID == "" {
		return Object{}, errors.New("the id is empty")
	}
	var err error
	if o.At, err = time.Parse(time.RFC3339, row[4]); err != nil {
		return Object{}, fmt.Errorf("the time is %.40q: write it like 2026-03-02T15:04:05Z, with a zone", row[4])
	}
	switch amount, currency := row[2], row[3]; {
	case amount == "" && currency == "":
	case amount == "" || currency == "":
		return Object{}, errors.New("it has an amount without a currency, or a currency without an amount")
	default:
		if o.Money, err = ParseDecimal(amount, currency); err != nil && !errors.Is(err, ErrDecimals) {
			return Object{}, errors.New(strings.TrimPrefix(err.Error(), "compare: "))
		}
	}
	return o, nil
}
