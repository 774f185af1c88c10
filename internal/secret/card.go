package secret

import (
	"regexp"
	"slices"
	"strings"
)

// parted matches digit groups, with any separators, that may hold a card's number.
var parted = regexp.MustCompile(`\d(?:[\s\p{Zs}\p{Pd}._/]{0,2}\d){12,}`)

// grouped are digits in groups as the number of a card is written.
var grouped = regexp.MustCompile(`\d(?:[ -]?\d){12,}`)

// spokenCode is a card's code as people write it.
var spokenCode = regexp.MustCompile(`(?i)\b((?:cvc2?|cvv2?|csc|cvn|security code|card code)(?:\s+is)?[^\w\s]{0,3}\s?["']?)\d{3,4}\b`)

// WithoutCards puts mask in place of each digit run that may hold a card's number.
func WithoutCards(s, mask string) string {
	return parted.ReplaceAllStringFunc(s, func(run string) string {
		plain := digitsOf(run)
		for from := range plain {
			for long := 13; long <= 19 && from+long <= len(plain); long++ {
				if isIssued(plain[from:]) && luhn(plain[from:from+long]) {
					return mask
				}
			}
		}
		return run
	})
}

// HasCard reports whether a text seems to hold a card's number and nothing else in one digit run. HasCard ignores
// longer runs: too many of these are other numbers.
func HasCard(text string) bool {
	return slices.ContainsFunc(grouped.FindAllString(text, -1), isCardNumber)
}

func isCardNumber(run string) bool {
	plain := digitsOf(run)
	return len(plain) <= 19 && isIssued(plain) && luhn(plain)
}

// issued begin the numbers of cards besides 2 to 6 (ISO/IEC 7812-1): RuPay, Troy, Humo and Uzcard.
var issued = []string{"81", "82", "86", "9792", "9860"}

func isIssued(number string) bool {
	return number[0] >= '2' && number[0] <= '6' || slices.ContainsFunc(issued, func(begin string) bool { return strings.HasPrefix(number, begin) })
}

func digitsOf(run string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, run)
}

func luhn(number string) bool {
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
