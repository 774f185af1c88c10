package webhook

import (
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// signedTime keeps the text beside the time, since the text is what was signed.
type signedTime struct {
	time.Time
	text string
}

// timedSignature reads a header of the form "t=…,v1=…", as Stripe made it known: a
// timestamp and one or more signatures in hexadecimal. Other items are ignored.
func timedSignature(h http.Header, name string, read func(string) (time.Time, bool)) (t signedTime, signatures [][]byte, err error) {
	text, err := header(h, name)
	if err != nil {
		return t, nil, err
	}
	for item := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return t, nil, malformed(name + " has an item without =")
		}
		switch key {
		case "t":
			if t.text != "" {
				return t, nil, malformed(name + " has two timestamps")
			}
			if t.Time, ok = read(value); !ok {
				return t, nil, malformed(name + " has a timestamp in another form")
			}
			t.text = value
		case "v1":
			// One that is not hexadecimal matches nothing; another may.
			if signature, err := hex.DecodeString(value); err == nil {
				signatures = append(signatures, signature)
			}
		}
	}
	if t.text == "" {
		return t, nil, malformed(name + " has no timestamp")
	}
	return t, signatures, nil
}
