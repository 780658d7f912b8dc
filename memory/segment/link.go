package segment

// The C++ runtime goes into the binary, so that the one file runs where no libstdc++ is
// installed. -static-libstdc++ is a flag of the C++ driver, which links every program
// that has C++ in it.

// #cgo linux LDFLAGS: -static-libstdc++ -static-libgcc
import "C"
