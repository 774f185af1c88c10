package receipts

import "net/http"

// Kept reports whether an answer is recorded. A 4xx is recorded if it is a transaction's or a flow's outcome.
func Kept(status int, outcome bool) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < 400 || status < 500 && outcome
}
