package webhook

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
)

// minRSA is how long an RSA key is at least, in bits. Wise's have 2048.
const minRSA = 2048

// Wise verifies Wise's webhooks. A key is Wise's public key, of the sandbox or the live API, as in Wise's
// documentation: in PEM, or the base64 inside. Wise returns a [*SecretError] if a key is missing, or is no RSA key of
// 2048 bits or more.
//
// X-Signature-SHA256 is base64 of an RSA signature over the SHA-256 of the raw body (documented, on "Event
// handling"), in PKCS #1 v1.5 (read in Wise's digital-signatures-examples 9d99fd9, verify-signature.js). It signs no
// timestamp, so a request can be replayed for ever. It signs no identifier: X-Delivery-Id is not under the signature.
// To recognise an event by its content, take the resource's id, its state and the time in the body. Wise repeats up
// to 25 times over two weeks (documented).
func Wise(publicKeys ...string) (*Verifier, error) {
	const scheme = "wise"
	var keys []*rsa.PublicKey
	if _, err := newKeys(scheme, trimmed(publicKeys), func(text string) ([]byte, error) {
		key, err := rsaPublicKey(text)
		keys = append(keys, key)
		return nil, err
	}); err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, verify: func(r *http.Request, body []byte) (Message, error) {
		signature, err := base64Header(r.Header, "X-Signature-Sha256")
		if err != nil {
			return Message{}, err
		}
		sum := sha256.Sum256(body)
		for _, key := range keys {
			if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil {
				return Message{}, nil
			}
		}
		return Message{}, noMatch()
	}}, nil
}

// trimmed leaves off the line break at the end of a file.
func trimmed(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, strings.TrimSpace(text))
	}
	return all
}

func rsaPublicKey(text string) (*rsa.PublicKey, error) {
	var der []byte
	if block, rest := pem.Decode([]byte(text)); block != nil {
		if block.Type != "PUBLIC KEY" || len(rest) > 0 {
			return nil, errors.New("it is not one public key in PEM")
		}
		der = block.Bytes
	} else {
		var err error
		if der, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, errors.New("it is neither PEM nor base64")
		}
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, errors.New("it is not a public key")
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok || key.N.BitLen() < minRSA {
		return nil, errors.New("it is not an RSA key of 2048 bits or more")
	}
	return key, nil
}
