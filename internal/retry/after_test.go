package retry_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/retry"
)

var now = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestRetryAfterReadsWhatServersSend(t *testing.T) {
	const ms, s, day = time.Millisecond, time.Second, 24 * time.Hour
	const none = -1
	seconds := func(value string) http.Header { return header("Retry-After", value) }
	millis := func(value string) http.Header { return header("Retry-After-Ms", value) }
	for _, tc := range []struct {
		name string
		h    http.Header
		want time.Duration // none: no wait was asked for
	}{
		{"no header", nil, none},
		{"other fields", header("X-RateLimit-Reset", "5"), none},

		{"seconds", seconds("120"), 120 * s},
		{"no wait", seconds("0"), 0},
		{"space around", seconds(" \t7 "), 7 * s},
		{"leading zeros", seconds("0005"), 5 * s},
		{"a fraction", seconds("0.5"), 500 * ms},
		{"a fraction that binary can't hold", seconds("1.1"), 1100 * ms},
		{"a bare point", seconds("2."), 2 * s},
		{"the limit", seconds("86400"), day},
		{"over the limit", seconds("86401"), day},
		{"over the limit by a fraction", seconds("86400.5"), day},
		{"more than a Duration holds", seconds("9223372037"), day},
		{"more than an int64 holds", seconds("99999999999999999999"), day},
		{"more than a float64 holds", seconds(strings.Repeat("9", 400)), day},
		{"a fraction too small to see", seconds("0." + strings.Repeat("0", 400) + "1"), 0},

		{"negative", seconds("-5"), none},
		{"a plus sign", seconds("+5"), none},
		{"an exponent", seconds("1e3"), none},
		{"hexadecimal", seconds("0x10"), none},
		{"an underscore", seconds("1_000"), none},
		{"infinity", seconds("Inf"), none},
		{"no number", seconds("NaN"), none},
		{"two points", seconds("1.2.3"), none},
		{"only a fraction", seconds(".5"), none},
		{"a comma", seconds("1,5"), none},
		{"digits of another script", seconds("٣"), none},
		{"a unit", seconds("5s"), none},
		{"words", seconds("later"), none},
		{"nothing", seconds(""), none},

		{"IMF-fixdate", seconds("Fri, 20 Nov 2026 12:01:30 GMT"), 90 * s},
		{"RFC 850", seconds("Friday, 20-Nov-26 12:01:30 GMT"), 90 * s},
		{"asctime", seconds("Fri Nov 20 12:01:30 2026"), 90 * s},
		{"asctime with a day of one digit", seconds("Fri Nov  6 12:00:00 2026"), 0},
		{"a date with space around", seconds(" Fri, 20 Nov 2026 12:01:30 GMT\t"), 90 * s},
		{"a date that has passed", seconds("Fri, 20 Nov 2026 11:59:59 GMT"), 0},
		{"a date long passed", seconds("Sun, 06 Nov 1994 08:49:37 GMT"), 0},
		{"a date over the limit", seconds("Sun, 22 Nov 2026 12:00:00 GMT"), day},
		{"the last year", seconds("Fri, 31 Dec 9999 23:59:59 GMT"), day},
		{"two digits of a year within 50 years", seconds("Friday, 20-Nov-76 12:00:00 GMT"), day},
		{"two digits of a year beyond 50 years", seconds("Saturday, 20-Nov-77 12:00:00 GMT"), 0},

		{"IMF-fixdate in UTC", seconds("Fri, 20 Nov 2026 12:01:30 UTC"), none},
		{"IMF-fixdate with an offset", seconds("Fri, 20 Nov 2026 12:01:30 +0000"), none},
		{"RFC 850 in another zone", seconds("Friday, 20-Nov-26 12:01:30 PST"), none},
		{"RFC 850 with a zone from GMT", seconds("Friday, 20-Nov-26 12:01:30 GMT+3"), none},
		{"asctime with a zone", seconds("Fri Nov 20 12:01:30 GMT 2026"), none},
		{"ISO 8601", seconds("2026-11-20T12:01:30Z"), none},
		{"no such day", seconds("Fri, 31 Nov 2026 12:01:30 GMT"), none},

		{"a date against a clock that is ahead", header(
			"Date", "Fri, 20 Nov 2026 13:00:00 GMT", "Retry-After", "Fri, 20 Nov 2026 13:00:05 GMT"), 5 * s},
		{"a date against a clock that is behind", header(
			"Date", "Friday, 20-Nov-26 11:00:00 GMT", "Retry-After", "Fri, 20 Nov 2026 11:00:05 GMT"), 5 * s},
		{"a date against an unreadable clock", header(
			"Date", "yesterday", "Retry-After", "Fri, 20 Nov 2026 12:00:05 GMT"), 5 * s},
		{"seconds don't depend on the clock", header(
			"Date", "Fri, 20 Nov 2026 13:00:00 GMT", "Retry-After", "5"), 5 * s},

		{"milliseconds", millis("1500"), 1500 * ms},
		{"a fraction of a millisecond", millis("0.25"), 250 * time.Microsecond},
		{"milliseconds over the limit", millis("86400001"), day},
		{"negative milliseconds", millis("-1"), none},
		{"no date in milliseconds", millis("Fri, 20 Nov 2026 12:01:30 GMT"), none},
		{"milliseconds before seconds", header("Retry-After", "2", "Retry-After-Ms", "1500"), 1500 * ms},
		{"seconds after unreadable milliseconds", header("Retry-After", "2", "Retry-After-Ms", "soon"), 2 * s},

		{"the longest of several", header("Retry-After", "3", "Retry-After", "9", "Retry-After", "4"), 9 * s},
		{"the longest of different forms", header(
			"Retry-After", "3", "Retry-After", "Fri, 20 Nov 2026 12:01:30 GMT"), 90 * s},
		{"the readable of several", header("Retry-After", "soon", "Retry-After", "4"), 4 * s},
		{"the longest milliseconds", header("Retry-After-Ms", "3", "Retry-After-Ms", "9"), 9 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			delay, ok := retry.After(tc.h, now, 0)
			if tc.want == none {
				assert.False(t, ok)
				assert.Zero(t, delay)
				return
			}
			assert.True(t, ok)
			assert.Equal(t, tc.want, delay)
		})
	}
}

func TestRetryAfterHoldsItsLimit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit time.Duration
		value string
		want  time.Duration
	}{
		{"shorter", time.Minute, "3600", time.Minute},
		{"longer", 72 * time.Hour, "172800", 48 * time.Hour},
		{"longer, a date", 72 * time.Hour, "Sun, 22 Nov 2026 12:00:00 GMT", 48 * time.Hour},
		{"none", 0, "172800", 24 * time.Hour},
		{"negative", -time.Second, "172800", 24 * time.Hour},
		{"the longest", math.MaxInt64, "99999999999999999999", math.MaxInt64},
		{"the longest, just below it", math.MaxInt64, "9223372036", 9223372036 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			delay, ok := retry.After(header("Retry-After", tc.value), now, tc.limit)
			assert.True(t, ok)
			assert.Equal(t, tc.want, delay)
		})
	}
}

// Retry-After stays between zero and its limit.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{
		"", "0", "120", " 7 ", "0.5", "-1", "1e9", "99999999999999999999", "Inf", "Fri, 20 Nov 2026 12:01:30 GMT",
		"Friday, 20-Nov-26 12:01:30 GMT", "Friday, 29-Feb-00 12:01:30 PST", "Fri Nov 20 12:01:30 2026",
	} {
		f.Add(value, "", "", int64(0), int64(0))
		f.Add("", value, "", int64(time.Hour), int64(4e9))
		f.Add("Fri, 20 Nov 2026 12:01:30 GMT", "", value, int64(math.MaxInt64), int64(-62135596800))
	}
	f.Fuzz(func(t *testing.T, seconds, millis, date string, limit, unix int64) {
		at := time.Unix(unix%1e11, 0)
		both := header("Retry-After", seconds, "Retry-After-Ms", millis, "Date", date)
		most := time.Duration(limit)
		if most <= 0 {
			most = backoff.DefaultMaxRetryAfter
		}
		delay, ok := retry.After(both, at, time.Duration(limit))
		assert.GreaterOrEqual(t, delay, time.Duration(0))
		assert.LessOrEqual(t, delay, most)
		if !ok {
			assert.Zero(t, delay)
		}
		if alone, found := retry.After(header("Retry-After-Ms", millis), at, most); found {
			assert.True(t, ok)
			assert.Equal(t, alone, delay, "milliseconds don't go first")
		}
	})
}

func ExampleAfter() {
	resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3"}}}
	delay, ok := retry.After(resp.Header, time.Now(), backoff.DefaultMaxRetryAfter)
	fmt.Println(delay, ok)
	// Output: 3s true
}
