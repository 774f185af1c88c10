package compare_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/compare"
)

const header = "id,reference,amount,currency,time\n"

func read(r io.Reader) (objects []compare.Object, err error) {
	for o, err := range compare.ReadCSV(r) {
		if err != nil {
			return objects, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

func TestReadCSV(t *testing.T) {
	want := []compare.Object{
		{ID: "ch_1", Reference: "order-17", At: at(10), Money: compare.Money{Minor: 2000, Currency: "EUR"}},
		{ID: `a "b", c`, At: at(11), Money: compare.Money{Minor: -5, Currency: "JPY"}},
		{ID: "ch_3", At: at(12)},
		{ID: "ch_4", At: at(12)},
	}
	text := header + "ch_1,order-17,20.00,eur,2026-03-02T10:00:00Z\n\"a \"\"b\"\", c\",,-5,JPY,2026-03-02T12:00:00+01:00\n" +
		"ch_3,,,,2026-03-02T12:00:00Z\nch_4,,20,ISK,2026-03-02T12:00:00Z"
	for _, r := range []io.Reader{
		strings.NewReader(text), strings.NewReader("\ufeff" + text + "\n"), strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n")), iotest.OneByteReader(strings.NewReader("\ufeff" + text)),
	} {
		got, err := read(r)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range got {
			assert.True(t, want[i].At.Equal(got[i].At))
			got[i].At = want[i].At
		}
		assert.Equal(t, want, got)
	}
	for range compare.ReadCSV(strings.NewReader(text)) {
		break
	}
}

// A list is read as a whole, or the line is named. Nothing is guessed.
func TestReadCSVGuessesNothing(t *testing.T) {
	const good = "ch_1,,20.00,EUR,2026-03-02T10:00:00Z\n"
	for _, row := range []struct {
		text, says string
		line       int
	}{
		{"", "the first line is id,reference,amount,currency,time", 1},
		{"\ufeff", "empty", 1},
		{"id;reference;amount;currency;time\n", "it has to be", 1},
		{"ID,Reference,Amount,Currency,Time\n", "it has to be", 1},
		{good, "it has to be", 1},
		{header + good + "ch_2,,1,000.00,EUR,2026-03-02T10:00:00Z\n", "6 fields", 3},
		{header + "\n" + good + "ch_2,,\"1,000.00\",EUR,2026-03-02T10:00:00Z\n", "decimal number", 4},
		{header + "ch_2,,\"20,00\",EUR,2026-03-02T10:00:00Z\n", "decimal number", 2},
		{header + "ch_2,,1 000,EUR,2026-03-02T10:00:00Z\n", "decimal number", 2},
		{header + "ch_2,,20.005,EUR,2026-03-02T10:00:00Z\n", "more than the 2 decimals", 2},
		{header + "ch_2,,99999999999999999999,EUR,2026-03-02T10:00:00Z\n", "too large", 2},
		{header + "ch_2,,20.00,€,2026-03-02T10:00:00Z\n", "no currency", 2},
		{header + "ch_2,,20.00,,2026-03-02T10:00:00Z\n", "without a currency", 2},
		{header + "ch_2,,20.00,EUR,02.03.2026\n", "with a zone", 2},
		{header + "ch_2,,20.00,EUR,2026-03-02T10:00:00\n", "with a zone", 2},
		{header + "ch_2,,20.00,EUR,\n", "with a zone", 2},
		{header + ",,20.00,EUR,2026-03-02T10:00:00Z\n", "id is empty", 2},
		{header + " ch_2,,20.00,EUR,2026-03-02T10:00:00Z\n", "white space", 2},
		{header + "\"ch\n2\",,20.00,EUR,2026-03-02T10:00:00Z\n", "more than one line", 2},
		{header + "ch_\xff,,20.00,EUR,2026-03-02T10:00:00Z\n", "UTF-8", 2},
		{header + "ch\"2,,20.00,EUR,2026-03-02T10:00:00Z\n", "a quote stands", 2},
		{header + "\"ch_2,,20.00,EUR,2026-03-02T10:00:00Z\n", "a quote stands", 2},
		{header + "ch_2\n", "1 fields", 2},
	} {
		_, err := read(strings.NewReader(row.text))
		var at *compare.CSVError
		require.ErrorAs(t, err, &at, "%q", row.text)
		assert.ErrorContains(t, err, row.says)
		assert.Equal(t, row.line, at.Line, "%q", row.text)
	}
	_, err := read(io.MultiReader(strings.NewReader(header+"\"a"), endless{}))
	require.ErrorContains(t, err, "longer than 64 KiB", "an open quote is not the whole list")
	for n, says := range map[int]string{63 << 10: "with a zone", 65 << 10: "longer than 64 KiB"} {
		_, err = read(strings.NewReader(header + strings.Repeat("a", n) + ",,,,02.03.2026\n"))
		require.ErrorContains(t, err, says)
	}
	_, err = read(iotest.ErrReader(errors.New("a broken pipe")))
	require.ErrorContains(t, err, "a broken pipe")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "a"), nil }

func TestDecimals(t *testing.T) {
	for _, row := range []struct {
		number, currency string
		want             int64
		shown            string
	}{
		{"20.00", "EUR", 2000, "20.00 EUR"}, {"20", "eur", 2000, "20.00 EUR"}, {"20.5", "USD", 2050, "20.50 USD"}, {"-0.05", "USD", -5, "-0.05 USD"},
		{"0", "USD", 0, "0.00 USD"}, {"007.10", "USD", 710, "7.10 USD"}, {"20.000", "USD", 2000, "20.00 USD"}, {"2000", "JPY", 2000, "2000 JPY"},
		{"2000.00", "JPY", 2000, "2000 JPY"}, {"1.234", "BHD", 1234, "1.234 BHD"}, {"92233720368547758.07", "USD", 9223372036854775807, "92233720368547758.07 USD"},
		{"-92233720368547758.08", "USD", -9223372036854775808, "-92233720368547758.08 USD"}, {"-5", "JPY", -5, "-5 JPY"},
	} {
		got, err := compare.ParseDecimal(row.number, row.currency)
		require.NoError(t, err, row.number)
		assert.Equal(t, row.want, got.Minor)
		assert.Equal(t, row.shown, got.String())
	}
	for _, number := range []string{"", "-", ".5", "5.", "+5", "1e3", "1,000.00", "1 000", "0x10", "٣", "--5", "1.2.3", "92233720368547758.08", "20.001", strings.Repeat("0", 65)} {
		_, err := compare.ParseDecimal(number, "USD")
		assert.Error(t, err, number)
	}
	_, err := compare.ParseDecimal("20.00", "ISK")
	require.ErrorIs(t, err, compare.ErrDecimals)
	for _, currency := range []string{"", "EU", "EURO", "€", "E R", "12A"} {
		_, err := compare.ParseDecimal("20", currency)
		require.Error(t, err)
		assert.NotErrorIs(t, err, compare.ErrDecimals)
		_, err = compare.ParseMinor("20", currency)
		require.Error(t, err)
	}
	got, err := compare.ParseMinor("2000", "isk")
	require.NoError(t, err)
	assert.Equal(t, compare.Money{Minor: 2000, Currency: "ISK"}, got)
	assert.Equal(t, "2000 of the smallest unit of ISK", got.String())
	assert.Equal(t, "no amount", compare.Money{}.String())
	_, err = compare.ParseMinor("20.00", "USD")
	require.ErrorContains(t, err, "smallest unit")
}

// A parsed number is shown as a number that parses to the same.
func FuzzDecimal(f *testing.F) {
	f.Add("20.00", "EUR")
	f.Add("-0.001", "KWD")
	f.Add("1,000", "JPY")
	f.Fuzz(func(t *testing.T, number, currency string) {
		got, err := compare.ParseDecimal(number, currency)
		if err != nil {
			assert.Zero(t, got)
			return
		}
		shown, code, _ := strings.Cut(got.String(), " ")
		again, err := compare.ParseDecimal(shown, code)
		require.NoError(t, err)
		assert.Equal(t, got, again)
	})
}

// A list ends in an error about a line, or each object is complete.
func FuzzReadCSV(f *testing.F) {
	f.Add(header + "ch_1,order-17,20.00,eur,2026-03-02T10:00:00Z\n")
	f.Add("\ufeff" + header + "\"a\"\"\",,,,2026-03-02T10:00:00Z\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := read(strings.NewReader(text))
		var at *compare.CSVError
		if err != nil && assert.ErrorAs(t, err, &at) {
			assert.Positive(t, at.Line)
			assert.LessOrEqual(t, at.Line, strings.Count(text, "\n")+1)
		}
		for _, o := range objects {
			assert.NotEmpty(t, o.ID)
		}
	})
}
