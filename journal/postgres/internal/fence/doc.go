// Package fence has the statements on the row of a lane (leased.Row), which fences the lane's commits.
//
// Each transaction of a lane begins with the guard, which moves the row from batch n-1 to n. The guard refuses if another
// process has raised the row's tenure, if the process or a needed session is not alive, or if the server is not the one
// that was checked. So the row shows the result of a COMMIT without an answer. Once the tenure is raised, a transaction
// that is still on its way fails.
//
// The package knows the lanes' table and the sessions'. It must not know a connection, or what a lane does if the guard
// refuses.
package fence
