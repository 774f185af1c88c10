package tables

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// leastDeclared is the shortest useful retention. A journal's clocks have to agree to a part of a retention.
const leastDeclared = time.Minute

// Declared returns the retention that an answer declares for the key. ok is false if the answer declares none, or a
// longer one than any table. An unreadable value may be a short time in another form, so it counts as zero. A value
// below one minute counts as zero too.
func (rt Route) Declared(a Answer) (retention time.Duration, ok bool) {
	d := &rt.Endpoint.Declared
	var text string
	switch {
	case d.Header != "" && len(a.Header.Values(d.Header)) > 0:
		if !headerSays(a.Header, d.Header, "") {
			return 0, true
		}
		text = strings.TrimSpace(a.Header.Get(d.Header))
	case d.Field != "":
		text, _ = NewFields(d.Field).Read(a.Body).Only(d.Field)
	}
	if text == "" {
		return 0, false
	}
	seconds, err := strconv.ParseUint(text, 10, 33) // 272 years
	if errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	if retention = time.Duration(seconds) * time.Second; err != nil || retention < leastDeclared {
		retention = 0
	}
	return retention, true
}
