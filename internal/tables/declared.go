package tables

import (
	"strconv"
	"strings"
	"time"
)

// leastDeclared is the shortest retention that is of use. The clocks of a journal are held to a part of it.
const leastDeclared = time.Minute

// Declared returns the retention that an answer declares for its key. ok is false if it declares none, or one that is not
// a number of seconds. Less than a minute counts as zero.
func (rt Route) Declared(a Answer) (retention time.Duration, ok bool) {
	d := &rt.Endpoint.Declared
	var text string
	switch {
	case d.Header != "" && headerSays(a.Header, d.Header, ""):
		text = strings.TrimSpace(a.Header.Get(d.Header))
	case d.Field != "":
		text, _ = NewFields(d.Field).Read(a.Body).Only(d.Field)
	}
	if text == "" {
		return 0, false
	}
	seconds, err := strconv.ParseUint(text, 10, 33) // 272 years
	if retention = time.Duration(seconds) * time.Second; retention < leastDeclared {
		retention = 0
	}
	return retention, err == nil
}
