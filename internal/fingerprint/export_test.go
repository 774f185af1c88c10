package fingerprint

// CanonicalJSON returns the scanner's form of a body, which the tests compare with RFC 8785.
func CanonicalJSON(body []byte, omit []string) (form string, content []byte) {
	return new(scanner).canonical(body, omit, &watch{})
}
