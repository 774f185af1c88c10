package secret

// What betrays a credential in a name is here and nowhere else. A name is read word by word, as split parts it.

// fragments betray a credential wherever they stand in a word: authtoken, phpsessid, x-oauth2. A field name that went
// through canonicalization has lost its inner capitals (Apitoken), so whole words are not enough for these.
var fragments = []string{
	"authoriz", "authoris", "authent", "oauth", "token", "secret", "signature", "session", "sessid", "cookie",
	"password", "passwd", "pwd", "passphrase", "passcode", "credential", "bearer", "assertion", "jwt", "dpop", "hmac",
	"csrf", "xsrf", "saml",
	"apikey", "accesskey", "privatekey", "authkey", "appkey", "subscriptionkey", "signingkey", "masterkey",
}

// words betray a credential only on their own: design, spinning and author are none. So does "key", but for openKeys.
var words = []string{"auth", "sig", "pass", "creds", "otp", "totp"}

// lastWords betray one at the end of a name, which says what the value is: X-Sign and body_mac hold one, sign_in_count
// and mac_version none.
var lastWords = []string{"sign", "mac", "pw", "psw", "psk", "pat", "cred"}

// matterWords and lastMatterWords, likewise, are of what is withheld as well, but says what is asked for rather than who
// asks.
var (
	matterWords     = []string{"pin", "verifier"}
	lastMatterWords = []string{"ticket"}
)

// openKeys are the words before "key" that make it an ordinary value. Any other key is taken for a credential: an API
// key, a private key, Google's bare key parameter.
var openKeys = []string{
	"public", "publishable", "partition", "routing", "sort", "primary", "foreign", "cache", "surrogate", "row", "group",
	"grouping", "ordering", "object", "message", "event", "request", "dedup", "deduplication",
}
