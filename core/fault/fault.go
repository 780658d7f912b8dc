// Package fault owns the named failpoints of the program: places between two steps of a
// transaction where a test may kill the process, fail the step or wait.
//
// In an ordinary build Point is an empty function that the compiler removes. With the
// build tag "failpoints" the environment variable LJ_FAILPOINT arms them:
//
//	LJ_FAILPOINT='store.append.before_commit=kill'      kill -9 this process there
//	LJ_FAILPOINT='toolkit.publish.ref=error'            the step fails there
//	LJ_FAILPOINT='NAME=kill@3'                          at the third time only
//	LJ_FAILPOINT='NAME=sleep:500'                       wait 500 ms there
//
// Several are separated by commas. The package knows nothing of what it interrupts.
package fault
