// Package address reads the address of a journal: a file's path, PostgreSQL's URL, or MySQL's URL or DSN. The package must
// not know a driver. No error shows a part of an address that may hold a password.
package address

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Kind is the store that an address leads to.
type Kind uint8

const (
	File Kind = iota
	PostgreSQL
	MySQL // or MariaDB
)

// dsn has the form of go-sql-driver/mysql, with the network. A password may contain anything, and a path is hardly so.
var dsn = regexp.MustCompile(`^(.*@)?(tcp|unix)\([^()]*\)/[^/]*$`)

// Of returns the kind of an address. A malformed address is a File's: see MeansDatabase.
func Of(address string) Kind {
	switch {
	case hasScheme(address, "postgres", "postgresql"):
		return PostgreSQL
	case hasScheme(address, "mysql", "mariadb"), dsn.MatchString(address):
		return MySQL
	}
	return File
}

func hasScheme(address string, schemes ...string) bool {
	scheme, _, isURL := strings.Cut(address, "://")
	return isURL && slices.Contains(schemes, scheme)
}

// MeansDatabase reports whether a File's address is meant for a database, so that the address may have a password in it.
func MeansDatabase(address string) bool {
	address = strings.ToLower(strings.TrimLeft(address, " \"'"))
	before, _, hasAccount := strings.Cut(address, "@")
	if strings.Contains(address, "://") || hasAccount && strings.Contains(before, ":") {
		return true
	}
	for _, begin := range []string{"postgres:", "postgresql:", "mysql:", "mariadb:", "tcp(", "unix("} {
		if strings.HasPrefix(address, begin) {
			return true
		}
	}
	for _, setting := range strings.Fields(address) { // as libpq's other connection strings have them
		switch key, _, _ := strings.Cut(setting, "="); key {
		case "host", "hostaddr", "dbname", "user", "password", "service":
			return key != setting
		}
	}
	return false
}

// HasPassword reports whether a database's address has, or may have, a password.
func HasPassword(address string) bool {
	if !strings.Contains(address, "://") {
		account, _ := cutAccount(address)
		return strings.Contains(account, ":")
	}
	u, err := Parse(address)
	if err != nil {
		return strings.Contains(address, "@")
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password") || u.Query().Has("sslpassword")
}

// cutAccount returns a DSN's account, with the password, and the rest from the @ on.
func cutAccount(address string) (account, rest string) {
	at := strings.LastIndex(address[:strings.LastIndex(address, "/")+1], "@")
	return address[:max(at, 0)], address[max(at, 0):]
}

// errMisread gives no details, since a URL may hold a password.
var errMisread = errors.New("can't be read: what is special in a part of it is escaped, as @ by %40 and / by %2F")

// Parse returns a URL. A URL with a part that had to be escaped is an error: one parser takes the part for a password, and
// another for a printed name.
func Parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errMisread
	}
	beforeQuery, query, _ := strings.Cut(address, "?")
	key, _, _ := strings.Cut(query, "=")
	if strings.Contains(address, "#") || strings.Count(beforeQuery, "@") > 1 || strings.ContainsAny(u.EscapedPath(), "@=;") || strings.Contains(key, "@") {
		return nil, errMisread
	}
	return u, nil
}

// settings are the parameters of the driver that an address may have. The journal's own connections set the last row anew.
var settings = []string{
	"tls", "timeout", "readTimeout", "writeTimeout", "allowNativePasswords", "allowCleartextPasswords", "allowFallbackToPlaintext", "connectionAttributes", "compress",
	"checkConnLiveness", "maxAllowedPacket", "rejectReadOnly", "columnsWithAlias", "timeTruncate", "loc",
	"charset", "collation", "interpolateParams", "multiStatements", "clientFoundRows", "parseTime", "sql_mode", "time_zone", "transaction_isolation", "tx_isolation",
}

// DSN returns the DSN of go-sql-driver/mysql for MySQL's URL or DSN. If there is no password, DSN adds MYSQL_PWD's. The
// error names a parameter that can't be used.
func DSN(address string) (string, error) {
	_, query, _ := strings.Cut(address[strings.LastIndex(address, "/")+1:], "?")
	if strings.Contains(address, "://") {
		u, err := Parse(address)
		if err != nil {
			return "", err
		}
		if address, err = ofURL(u); err != nil {
			return "", err
		}
		query = u.RawQuery
	}
	if err := checkSettings(query); err != nil {
		return "", err
	}
	account, rest := cutAccount(address)
	if password := os.Getenv("MYSQL_PWD"); password != "" && account != "" && !strings.Contains(account, ":") {
		account += ":" + password
	}
	return account + rest, nil
}

// ofURL returns a URL's DSN.
func ofURL(u *url.URL) (string, error) {
	name, password := u.User.Username(), ""
	if given, has := u.User.Password(); has {
		password = ":" + given
	}
	switch {
	case u.Hostname() == "" || name == "":
		return "", errors.New("names no account or no host: it has the form mysql://user@host:3306/")
	case strings.Contains(name, ":"):
		return "", errors.New("has a colon in the account's name, which the driver does not take")
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	text := name + password + "@tcp(" + net.JoinHostPort(u.Hostname(), port) + ")/" + url.PathEscape(strings.TrimPrefix(u.Path, "/"))
	if u.RawQuery != "" {
		text += "?" + strings.ReplaceAll(u.RawQuery, "/", "%2F") // the driver takes the last slash for that before the database
	}
	return text, nil
}

// checkSettings returns an error that names a refused parameter. The driver would send an unknown parameter to the server as a
// variable. A certificate or key with a name needs a program that registers it.
func checkSettings(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil || strings.Contains(query, "@") {
		return errMisread
	}
	for name, value := range values {
		if !slices.Contains(settings, name) {
			return fmt.Errorf("has the parameter %q, which can't be used here; encryption is tls=true", name)
		}
		if name == "tls" && !slices.Contains([]string{"true", "false", "skip-verify", "preferred"}, strings.Join(value, " ")) {
			return fmt.Errorf("has tls=%q: give true, skip-verify, preferred or false; SSL_CERT_FILE names the file with a certificate authority of your own", strings.Join(value, " "))
		}
	}
	return nil
}

// IsLoopback reports whether a host is the loopback interface.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
