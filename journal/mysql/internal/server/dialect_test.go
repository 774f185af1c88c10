package server

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A server's version decides whether the server has the statements that the journal needs.
func TestVersions(t *testing.T) {
	for version, accepted := range map[string]bool{
		"8.0.21":                     false,
		"8.0.22":                     true,
		"8.0.43-0ubuntu0.24.04.1":    true,
		"8.4.6":                      true,
		"5.7.44-log":                 false,
		"10.5.29-MariaDB":            false,
		"10.6.0-MariaDB":             true,
		"10.11.19-MariaDB-0+deb12u1": true,
		"11.8.2-MariaDB-ubu2404-log": true,
	} {
		_, err := dialectOf(version)
		assert.Equal(t, accepted, err == nil, version)
	}
}
