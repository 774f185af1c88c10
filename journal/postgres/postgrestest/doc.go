// Package postgrestest starts PostgreSQL servers for tests: separate servers that may be stopped, killed and restarted,
// or one for all of a binary's tests.
//
//	func TestPayout(t *testing.T) {
//		server := postgrestest.Shared(t)
//		j, err := postgres.Open(t.Context(), server.URL(), postgres.Options{
//			Schema: server.Schema(t), Deployment: "test", Migrate: true,
//		})
//		…
//	}
//
// The package looks for PostgreSQL's programs in PATH and in the folders of Debian, Red Hat and Homebrew. A server
// listens on 127.0.0.1 alone, with a fresh password, and keeps the data in a folder of the system's temporary one. The
// server is stopped and removed when the test ends, or when the process does, in any way. One process's servers are
// copies, with the same password and system identifier. PostgreSQL refuses to run as root. If the test runs as root,
// its programs run as the user postgres.
//
// Two environment variables say otherwise:
//
//   - ONCEWARD_POSTGRES_URL is a server that Shared takes instead of starting one. The URL needs a role that may create
//     schemas in the database. A test that needs a separate server starts one all the same.
//   - ONCEWARD_POSTGRES=required makes a test fail if there are no programs. Without it, the test is skipped.
package postgrestest
