// Package mysqltest starts private MariaDB servers for tests.
//
//	server := mysqltest.Shared(t)
//	j, err := mysql.Open(ctx, server.DSN(), mysql.Options{Schema: server.Schema(t), Deployment: "test", Migrate: true, Unsafe: true})
//
// A server has its own folder and port. The servers of a process share a password. A server ends with its test, or with the
// process, even if the process is killed. By default a server is volatile: its commits outlive the server, and not the machine.
//
// The programs mariadbd and mariadb-install-db must be in PATH or /usr/sbin (Debian's package mariadb-server). Without
// these programs a test skips, or fails if ONCEWARD_MYSQL is "required". ONCEWARD_MYSQL_DSN names a running server for Shared.
// That server may also be MySQL 8.
package mysqltest
