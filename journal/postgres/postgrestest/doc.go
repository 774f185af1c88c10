// Package postgrestest starts PostgreSQL servers for tests: servers of one's own that may be stopped, killed and
// restarted, or one for all tests of a binary.
//
//	func TestPayout(t *testing.T) {
//		server := postgrestest.Shared(t)
//		j, err := postgres.Open(t.Context(), server.URL(), postgres.Options{
//			Schema: server.Schema(t), Deployment: "test", Migrate: true,
//		})
//		…
//	}
//
// It looks for PostgreSQL's programs in PATH and where Debian, Red Hat and Homebrew have them. A server listens on
// 127.0.0.1 alone, with a password made for it, keeps its data in a folder of the system's temporary one, and is stopped
// and removed when its test ends, or when the process does, in whichever way. Servers of one process are copies of one: they
// have a password and a system identifier in common. PostgreSQL refuses to run as root: there,
// its programs run as the user postgres.
//
// Two environment variables say otherwise:
//
//   - ONCEWARD_POSTGRES_URL is a server that Shared takes instead of starting one. It needs a role that may create
//     schemas in that database. What needs a server of its own starts one all the same.
//   - ONCEWARD_POSTGRES=required has a test fail where there are no programs. Without it, it is skipped.
package postgrestest
