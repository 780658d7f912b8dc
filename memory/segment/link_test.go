package segment

import (
	"debug/elf"
	"os"
	"strings"
	"testing"
)

// The program needs no C++ library where it runs.
func TestNoSharedCPlusPlus(t *testing.T) {
	f, err := elf.Open(os.Args[0])
	if err != nil {
		t.Skipf("not an ELF program: %v", err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libs {
		if strings.Contains(l, "stdc++") || strings.Contains(l, "gcc_s") {
			t.Errorf("needs %s", l)
		}
	}
}
