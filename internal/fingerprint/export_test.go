package fingerprint

// CanonicalJSON is canonicalJSON, whose output the tests hold against RFC 8785.
var CanonicalJSON = canonicalJSON
