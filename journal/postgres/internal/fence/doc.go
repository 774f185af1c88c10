// Package fence has the row of a lane, which fences the lane's commits.
//
// Each transaction of a lane begins with the guard: it moves the row from batch n-1 to n, if the row has the tenure that
// the lane knows, the process and its sessions live, and the server is the one that was checked. So the row shows the
// result of a COMMIT without an answer. Once the tenure is raised, a transaction that is still on its way fails.
//
// The package knows the lanes' table and the sessions'. It must not know a connection, or what a lane does if the guard
// refuses.
package fence
