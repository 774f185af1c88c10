package compare

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Money is an amount in a currency's smallest unit. 20.00 EUR is Money{2000, "EUR"}. The zero Money is no amount.
type Money struct {
	Minor    int64
	Currency string // its three letters; "" means that there is no amount
}

// String returns the amount for people: "20.00 EUR". It returns "2000 of the smallest unit of ISK" for a currency
// without known decimals, and "no amount" for the zero Money.
func (m Money) String() string {
	if m.Currency == "" {
		return "no amount"
	}
	decimals, known := decimalsOf(m.Currency)
	if !known {
		return fmt.Sprintf("%d of the smallest unit of %s", m.Minor, m.Currency)
	}
	digits, sign := strconv.FormatInt(m.Minor, 10), ""
	digits, negative := strings.CutPrefix(digits, "-")
	if negative {
		sign = "-"
	}
	if decimals == 0 {
		return sign + digits + " " + m.Currency
	}
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	return sign + digits[:len(digits)-decimals] + "." + digits[len(digits)-decimals:] + " " + m.Currency
}

// ErrDecimals means that Onceward does not know how many decimals a currency has, or that providers disagree. An amount
// in such a currency can be compared only in the smallest unit.
var ErrDecimals = errors.New("compare: the decimals of the currency are not known")

// ParseDecimal returns the amount that a decimal number states: "20.00" in EUR is 2000 cents. It takes digits with an
// optional minus sign and point. It rejects thousands separators, spaces, exponents, and more decimals than the currency
// has unless these are zeros. The currency's letters may be small.
//
// The error is ErrDecimals if the currency is well-formed and the decimals are not known.
func ParseDecimal(number, currency string) (Money, error) {
	code, err := codeOf(currency)
	if err != nil {
		return Money{}, err
	}
	whole, fraction, negative, err := partsOf(number)
	if err != nil {
		return Money{}, err
	}
	decimals, known := decimalsOf(code)
	if !known {
		return Money{}, fmt.Errorf("%w: %s", ErrDecimals, code)
	}
	if len(fraction) > decimals {
		if strings.Trim(fraction[decimals:], "0") != "" {
			return Money{}, fmt.Errorf("compare: %q has more than the %d decimals of %s", number, decimals, code)
		}
		fraction = fraction[:decimals]
	}
	return minorOf(whole+fraction+strings.Repeat("0", decimals-len(fraction)), negative, code)
}

// ParseMinor returns the amount that a whole number in the smallest unit states. The currency's letters may be small.
func ParseMinor(number, currency string) (Money, error) {
	code, err := codeOf(currency)
	if err != nil {
		return Money{}, err
	}
	whole, fraction, negative, err := partsOf(number)
	if err == nil && fraction != "" {
		err = fmt.Errorf("compare: %q is no whole number of the smallest unit", number)
	}
	if err != nil {
		return Money{}, err
	}
	return minorOf(whole, negative, code)
}

// partsOf returns the digits before and behind the point.
func partsOf(number string) (whole, fraction string, negative bool, err error) {
	text, negative := strings.CutPrefix(number, "-")
	whole, fraction, dotted := strings.Cut(text, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	if len(number) > 64 || !digits(whole) || dotted && !digits(fraction) {
		return "", "", false, fmt.Errorf("compare: %.40q is no decimal number such as 1234.50: it has digits, and no separator but a point", number)
	}
	return whole, fraction, negative, nil
}

func minorOf(digits string, negative bool, code string) (Money, error) {
	if negative {
		digits = "-" + digits
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return Money{}, fmt.Errorf("compare: an amount of %s is too large", code)
	}
	return Money{n, code}, nil
}

// codeOf returns a currency's code in capital letters.
func codeOf(currency string) (string, error) {
	code := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, currency)
	if len(code) != 3 || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "", fmt.Errorf("compare: %.20q is no currency: write its three letters, such as EUR", currency)
	}
	return code, nil
}

// decimalsOf returns a currency's decimals by ISO 4217.
func decimalsOf(code string) (decimals int, known bool) {
	for n, codes := range currencies {
		for at := 0; at < len(codes); at += 4 {
			if codes[at:at+3] == code {
				return n, true
			}
		}
	}
	return 0, false
}

// currencies are the codes by their decimals (ISO 4217, active list). CLP, CVE, IDR, ISK and UGX are left out: providers
// disagree about the smallest unit of these.
var currencies = [...]string{
	0: "BIF DJF GNF JPY KMF KRW PYG RWF VND VUV XAF XOF XPF",
	1: "",
	2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CZK DKK DOP " +
		"DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD " +
		"LSL MAD MDL MKD MMK MNT MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR " +
		"SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW",
	3: "BHD IQD JOD KWD LYD OMR TND",
}
