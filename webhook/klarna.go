package webhook

// Klarna reads Klarna's webhooks. A secret is a signing key made for the webhooks. Klarna returns an error if a secret
// is missing or invalid.
//
// That an HMAC under the signing key protects the message is documented, on "Set up your webhooks". The rest is
// reported by users and not confirmed: the header's name, Klarna-Signature, SHA-256, and that the raw body alone is
// signed. Both reported encodings are read, hexadecimal and base64. So the message is a hint: ask Klarna's API for the
// named object. It signs no timestamp.
func Klarna(signingKeys ...string) (*Verifier, error) {
	return overBody{scheme: "klarna", header: "Klarna-Signature", read: eitherHeader, hint: true}.verifier(signingKeys)
}
