package address_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/address"
)

// An address leads to one store. Any other text that may have a password in it is known as meant for a database.
func TestAddressesAreToldApart(t *testing.T) {
	for text, want := range map[string]address.Kind{
		"payments.db":                             address.File,
		"/var/lib/shop@2/payments.db":             address.File,
		"tcp(1)/payments/shop.db":                 address.File,
		"postgres:///?service=payments":           address.PostgreSQL,
		"postgresql://shop@db/shop":               address.PostgreSQL,
		"mysql://shop@db/":                        address.MySQL,
		"mariadb://shop:secret@db:3307/shop":      address.MySQL,
		"shop:a/b@c:d@tcp(db:3306)/shop?tls=true": address.MySQL,
		"shop@unix(/run/mysqld/mysqld.sock)/":     address.MySQL,
		"shop:@tcp(x)/y@tcp([2001:db8::1]:3306)/": address.MySQL,
	} {
		assert.Equal(t, want, address.Of(text), text)
	}
	for _, text := range []string{
		"shop:secret@tcp(db:3306)", "shop:secret@/shop", "shop:secret@db:3306/shop", "mysql:/shop:secret@db", "MYSQL://shop:secret@db/", ` "mysql://shop:secret@db/"`, "jdbc:mysql://db/?password=secret",
		"postgres:/shop", "host=db password=secret",
	} {
		assert.Equal(t, address.File, address.Of(text), text)
		assert.True(t, address.MeansDatabase(text), text)
	}
	assert.False(t, address.MeansDatabase("/var/lib/shop@2/payments.db"))
	for text, want := range map[string]bool{
		"mysql://shop@db/": false, "mysql://shop:secret@db/": true, "mysql://shop:sec ret@db/": true, "mysql://db/?password=secret": true,
		"shop@tcp(db:3306)/": false, "shop:secret@tcp(db:3306)/": true, "tcp(db:3306)/": false, "postgres://shop@db/shop": false, "postgres://db/x?sslpassword=secret": true,
	} {
		assert.Equal(t, want, address.HasPassword(text), text)
	}
}

func TestDSN(t *testing.T) {
	for _, row := range []struct{ text, environment, want string }{
		{"mysql://shop:p%40ss%2F%3A%25@db/", "", "shop:p@ss/:%@tcp(db:3306)/"},
		{"mysql://shop@[2001:db8::1]:3307/shop?tls=true&loc=Europe/Berlin", "", "shop@tcp([2001:db8::1]:3307)/shop?tls=true&loc=Europe%2FBerlin"},
		{"mysql://shop@db/", "of/the@environment", "shop:of/the@environment@tcp(db:3306)/"},
		{"mysql://shop:given@db/", "not-used", "shop:given@tcp(db:3306)/"},
		{"shop@tcp(db:3306)/", "secret", "shop:secret@tcp(db:3306)/"},
		{"shop:a@b/c@tcp(db:3306)/shop?parseTime=true&time_zone=%27UTC%27", "not-used", "shop:a@b/c@tcp(db:3306)/shop?parseTime=true&time_zone=%27UTC%27"},
		{"shop:x@unix(/run/mysqld/mysqld.sock)/", "", "shop:x@unix(/run/mysqld/mysqld.sock)/"},
	} {
		t.Setenv("MYSQL_PWD", row.environment)
		got, err := address.DSN(row.text)
		require.NoError(t, err, row.text)
		assert.Equal(t, row.want, got)
	}
}

// An unknown parameter, or one with a value that the command can't use, is refused by name.
func TestParametersAreRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		"mysql://shop:hidden-one@db/?ssl-mode=REQUIRED":       `"ssl-mode"`,
		"mysql://shop:hidden-one@db/?tls=true&sslmode=verify": `"sslmode"`,
		"mysql://shop:hidden-one@db/?tls=corporate":           `tls="corporate"`,
		"mysql://shop:hidden-one@db/?tls=false&tls=true":      `tls="false true"`,
		"shop:hidden-one@tcp(db:3306)/?tls=corporate":         "SSL_CERT_FILE",
		"shop:hidden-one@tcp(db:3306)/?tls=tru)e":             `tls="tru)e"`,
		"shop:hidden-one@tcp(db:3306)/?allowAllFiles=true":    `"allowAllFiles"`,
		"shop:hidden-one@tcp(db:3306)/?strict=true":           `"strict"`,
		"shop:hidden-one@tcp(db:3306)/?serverPubKey=key":      `"serverPubKey"`,
		"mysql://shop:hidden-one@db/?a;b":                     "can't be read",
		"mysql://shop:1?tls=true&hidden-one@db/":              "no account",
		"mysql://shop@db:1?tls=true&hidden-one@db/":           "can't be read",
		"mysql://shop:hid#den-one@db/":                        "can't be read",
		"mysql://shop:hid@den-one@db/":                        "can't be read",
		"mysql://a%3Ab:hidden-one@db/":                        "colon",
		"mysql://db/":                                         "no account",
		"mysql://shop:hidden-one@/":                           "no host",
	} {
		_, err := address.DSN(text)
		if assert.ErrorContains(t, err, want, text) {
			assert.NotContains(t, err.Error(), "den-one")
		}
	}
}
