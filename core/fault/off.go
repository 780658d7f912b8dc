//go:build !failpoints

package fault

// Enabled says whether this binary was built with failpoints.
const Enabled = false

// Point marks a place where a test can interrupt the program. In this build it does
// nothing and returns nil.
func Point(string) error { return nil }
