package mysqltest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

func TestAKilledServerStartsAgain(t *testing.T) {
	server := mysqltest.Start(t)
	name := server.Schema(t)
	server.Exec(t, "CREATE DATABASE "+name)
	server.Kill9(t)
	server.Run(t)
	var found string
	require.NoError(t, server.DB().QueryRow("SELECT schema_name FROM information_schema.schemata WHERE schema_name = ?", name).Scan(&found))
	assert.Equal(t, name, found)
}
