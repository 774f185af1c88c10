package secret

// The words that betray a credential in a name are here and nowhere else. A name is read word by word, as split parts it.

// fragments betray a credential wherever they stand in a word: authtoken, phpsessid, x-oauth2. A field name that went
// through canonicalization has lost its inner capitals (Apitoken), so whole words are not enough for these.
var fragments = []string{
	"authoriz", "authoris", "authent", "oauth", "token", "secret", "signature", "session", "sessid", "cookie",
	"password", "passwd", "pwd", "passphrase", "passcode", "credential", "bearer", "assertion", "jwt", "dpop", "hmac",
	"csrf", "xsrf", "saml", "macaroon",
	"apikey", "accesskey", "privatekey", "authkey", "appkey", "subscriptionkey", "signingkey", "masterkey", "accesscode",
}

// ends betray one at the end of a word, as canonicalization leaves Merchantkey and Xauth, but for openEnds.
var ends = []string{"key", "auth"}

// openEnds are words that end so and are ordinary. A word that openKeys makes one with "key" is, too.
var openEnds = []string{"monkey", "turkey", "donkey", "hockey", "jockey", "whiskey", "hotkey", "preauth"}

// words betray a credential only on their own: design, spinning and author are none. So does "key", but for openKeys.
var words = []string{"pin", "auth", "sig", "pass", "creds", "otp", "totp"}

// lastWords betray one at the end of a name, which says what the value is: X-Sign and body_mac hold one, sign_in_count
// and mac_version none.
var lastWords = []string{"sign", "mac", "pw", "psw", "psk", "pat", "cred"}

// matterWords and lastMatterWords name values that are also withheld, but describe the request rather than the caller.
var (
	matterWords     = []string{"verifier"}
	lastMatterWords = []string{"ticket"}
)

// payments are whole names, in lower case, of headers that pay. Another value is another payment.
var payments = []string{
	"payment-signature", // https://github.com/x402-foundation/x402/blob/main/specs/transports-v2/http.md
	"x-payment",         // https://github.com/x402-foundation/x402/blob/main/specs/transports-v1/http.md
	"x-cashu",           // https://github.com/cashubtc/nuts/blob/main/24.md
	"skyfire-pay-id",    // https://docs.skyfire.xyz/reference/integrating-kyapay-tokens-into-your-seller-services
}

// signIn is the whole name of x402's header for a message that a wallet signed.
const signIn = "sign-in-with-x"

// openKeys are the words before "key" that make the value an ordinary one. Any other key is taken for a credential: an
// API key, a private key, Google's bare key parameter.
var openKeys = []string{
	"public", "publishable", "partition", "routing", "sort", "primary", "foreign", "cache", "surrogate", "row", "group",
	"grouping", "ordering", "object", "message", "event", "request", "dedup", "deduplication",
}
