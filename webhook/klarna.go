package webhook

// Klarna reads Klarna's webhooks. A secret is a signing key that was made for them.
// An error says that one is missing or can't be one.
//
// That an HMAC under the signing key protects the message is documented, on "Set up
// your webhooks". The rest is reported by users and not confirmed: the header's name,
// Klarna-Signature, SHA-256, and that the raw body alone is signed. Both encodings
// that are reported are read, hexadecimal and base64. So the message is a hint: ask
// Klarna's API for the object that it names. It signs no timestamp.
func Klarna(signingKeys ...string) (*Verifier, error) {
	v, err := overBody("klarna", signingKeys, "Klarna-Signature", eitherHeader, nil)
	if err != nil {
		return nil, err
	}
	v.hint = true
	return v, nil
}
