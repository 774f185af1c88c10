package fingerprint

// CanonicalJSON is what a scanner makes of a body, which the tests hold against RFC 8785.
func CanonicalJSON(body []byte, omit []string) (form string, content []byte) {
	return new(scanner).canonical(body, omit, &watch{})
}
