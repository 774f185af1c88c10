package secret

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is the kind of value in a body field, by the field's name.
type Kind uint8

const (
	// Open may be kept.
	Open Kind = iota

	// Card is a card's number, or a code that approves payments by the card. It is never kept.
	Card

	// Sealed is a password, a private key, or a secret by which a client authenticates. It is never kept.
	Sealed

	// Credential is any other credential. Such a credential is kept only where a provider's table names the provider's
	// secrets.
	Credential
)

// Field returns a field's kind, by its name and the name parent, which may be empty, of its object or form. Names are
// compared in full, without regard to case and to all that is no letter or digit: a card's number is card_number,
// cardNumber, or the number of a card. A withheld body can't be sent after a crash without its caller. So a name in
// doubt is open, unlike a header's. Payment tokens, encrypted card data, payment authorizations, and page and version
// tokens are open.
func Field[T ~string | ~[]byte](parent, name T) Kind {
	var room [maxFieldName]byte
	folded := Fold(room[:0], parent)
	from := len(folded)
	folded = Fold(folded, name)
	kind := fields[string(folded[from:])]
	if from == 0 || from == len(folded) || kind == Card || kind == Sealed {
		return kind
	}
	return cmp.Or(fields[string(folded)], kind)
}

// isCard reports whether a name is that of a card's number or code, as form fields are called: card[number], x.cvc.
func isCard(name string) bool {
	var parent, last string
	for step := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '[' || r == ']' || r == '.' }) {
		parent, last = last, step
	}
	return last != "" && Field(parent, last) == Card
}

// maxFieldName is more than a name has with its parent's as a rule, in bytes.
const maxFieldName = 64

// Fold appends the letters and digits of a text to dst, in lower case.
func Fold[T ~string | ~[]byte](dst []byte, text T) []byte {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			dst = append(dst, c)
		case 'A' <= c && c <= 'Z':
			dst = append(dst, c|' ')
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				dst = utf8.AppendRune(dst, unicode.ToLower(unicode.ToUpper(r))) // two signs stand for ASCII letters
			}
			i += n - 1
		}
	}
	return dst
}

// fields are the names for fields that are not open, in Fold's form.
var fields = kinds(map[Kind][]string{
	Card: {
		"cardnumber", "cardnum", "cardno", "creditcardnumber", "debitcardnumber", "paymentcardnumber", "bankcardnumber",
		"creditcardnum", "creditcardno", "ccnumber", "ccnum", "ccno", "pan", "cardpan", "fullpan", "primaryaccountnumber",
		"cvv", "cvv2", "cvc", "cvc2", "csc", "cvn", "cvd", "cardcvv", "cardcvc", "cardcvv2", "cardcvc2", "cardcvn", "cardcvd", "cardcsc",
		"creditcardcvv", "cccvv", "cccvc", "cvvcode", "cvccode", "cvvnumber", "cvcnumber", "cardcode", "securitycode", "cardsecuritycode", "cardverification",
		"cardverificationcode", "cardverificationvalue", "cardverificationnumber",
		"track1", "track2", "track1data", "track2data", "trackdata", "cardpin", "pinblock", "encryptedpinblock",
	},
	Sealed: {
		"password", "passwd", "pwd", "passphrase", "userpassword", "newpassword", "oldpassword", "currentpassword",
		"passwordconfirmation", "confirmpassword", "passwordconfirm", "repeatpassword", "accountpassword", "loginpassword",
		"adminpassword", "masterpassword", "masteruserpassword", "dbpassword", "temporarypassword", "proposedpassword",
		"clientsecret", "clientassertion", "consumersecret", "appsecret", "applicationsecret", "apisecret", "sharedsecret",
		"privatekey", "privatekeypem", "rsaprivatekey", "secretkey", "secretaccesskey", "apisecretkey",
		"granttype", // of a request for a token, whatever it shows (RFC 6749 section 4)
	},
	Credential: {
		"apikey", "xapikey", "apitoken", "appkey", "accesskey", "authkey", "signingkey", "signingsecret", "webhooksecret",
		"masterkey", "encryptionkey", "consumerkey", "subscriptionkey", "licensekey", "merchantkey", "partnerkey",
		"servicekey", "integrationkey", "transactionkey", "sessionkey", "secret", "secretstring", "credentials",
		"accesstoken", "oauthtoken", "refreshtoken", "idtoken", "authtoken", "authenticationtoken", "bearertoken",
		"sessiontoken", "securitytoken", "websessiontoken", "logintoken", "usertoken", "servicetoken", "webidentitytoken",
		"csrftoken", "xsrftoken", "subjecttoken", "actortoken", "jwt", "assertion", "samlassertion", "samlresponse",
		"signature", "codeverifier", "devicecode", "otp", "totp", "pin", "passcode",
		"requestsecuritytoken", // WS-Trust 1.3 section 3.1
		"tokentypehint",        // of a token that is revoked (RFC 7009 section 2.1)
	},
})

func kinds(lists map[Kind][]string) map[string]Kind {
	all := map[string]Kind{}
	for kind, names := range lists {
		for _, name := range names {
			all[name] = kind
		}
	}
	return all
}
