package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/backoff"
)

// After returns how long a response with header h, received at now, asks to wait, and whether it asks at all. The
// delay is never negative and never more than limit. A limit of 0 or less means [backoff.DefaultMaxRetryAfter].
//
// Retry-After-Ms, a number of milliseconds that vendors' SDKs agree on with their servers, goes before Retry-After. The
// value is a number of seconds or an HTTP date in any of the three forms (RFC 9110 sections 10.2.3 and 5.6.7). Numbers
// may have a decimal fraction. A date is measured from the response's own Date, so a clock that differs from the
// server's does no harm, or from now if there is none. A date that has passed asks for no wait. Among several values in
// one field the longest counts. A value that fits no form is ignored, and so is a date in another zone than GMT.
func After(h http.Header, now time.Time, limit time.Duration) (delay time.Duration, ok bool) {
	if limit <= 0 {
		limit = backoff.DefaultMaxRetryAfter
	}
	for _, value := range h.Values("Retry-After-Ms") {
		if d, valid := parseDelay(value, time.Millisecond, limit); valid {
			delay, ok = max(delay, d), true
		}
	}
	if ok {
		return delay, true
	}
	for _, value := range h.Values("Retry-After") {
		d, valid := parseDelay(value, time.Second, limit)
		if !valid {
			var date time.Time
			if date, valid = parseDate(value, now); valid {
				d = min(max(date.Sub(sentAt(h, now)), 0), limit)
			}
		}
		if valid {
			delay, ok = max(delay, d), true
		}
	}
	return delay, ok
}

// sentAt returns the response's own Date, or now if it has none.
func sentAt(h http.Header, now time.Time) time.Time {
	if date, valid := parseDate(h.Get("Date"), now); valid {
		return date
	}
	return now
}

// parseDelay reads digits with an optional decimal fraction: less than strconv takes, which knows signs, exponents,
// underscores, hexadecimal and infinity.
func parseDelay(value string, unit, limit time.Duration) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	whole, fraction, _ := strings.Cut(value, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false
	}
	// The error can only be one of range, and then the number is infinite, which is beyond the limit.
	number, _ := strconv.ParseFloat(value, 64)
	nanoseconds := math.Round(number * float64(unit))
	if nanoseconds >= float64(limit) {
		return limit, true
	}
	return time.Duration(nanoseconds), true
}

// rfc850 spells out GMT, as [http.TimeFormat] does. With a zone's placeholder, time.Parse would read any unknown zone
// as GMT.
const rfc850 = "Monday, 02-Jan-06 15:04:05 GMT"

func parseDate(value string, now time.Time) (time.Time, bool) {
	value = strings.Trim(value, " \t")
	if date, err := time.Parse(http.TimeFormat, value); err == nil {
		return date, true
	}
	if date, err := time.Parse(time.ANSIC, value); err == nil {
		return date, true
	}
	date, err := time.Parse(rfc850, value)
	if err != nil {
		return time.Time{}, false
	}
	return inCentury(date, now), true
}

// inCentury gives a date with a year of two digits the latest century with a date at most 50 years after now (RFC 9110
// section 5.6.7).
func inCentury(date, now time.Time) time.Time {
	horizon := now.AddDate(50, 0, 0)
	year := horizon.Year()/100*100 + date.Year()%100
	for {
		found := time.Date(year, date.Month(), date.Day(), date.Hour(), date.Minute(), date.Second(), 0, time.UTC)
		if !found.After(horizon) {
			return found
		}
		year -= 100
	}
}
