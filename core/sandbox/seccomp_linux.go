package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

const (
	errno = seccomp.ActionErrno | seccomp.Action(unix.EPERM)
	nosys = seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
)

// escapes are system calls that could open a way out of confinement, or concern the whole
// machine. No ordinary program of a developer needs them.
var escapes = []string{
	"mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
	"setns", "unshare", "bpf", "perf_event_open", "userfaultfd", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
	"reboot", "swapon", "swapoff", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "acct", "quotactl",
	"add_key", "request_key", "keyctl", "open_by_handle_at", "syslog", "process_vm_writev", "process_vm_readv", "kcmp", "io_uring_setup", "io_uring_enter", "io_uring_register",
}

// known keeps the names that this system's table has; one that it lacks can't be called
// by name either.
func known(names []string) []string {
	var out []string
	for _, n := range names {
		p := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{{Action: errno, Names: []string{n}}}}
		if _, err := p.Assemble(); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func arg(n uint32, op seccomp.Operation, v uint64) seccomp.Condition {
	return seccomp.Condition{Argument: n, Operation: op, Value: v}
}

// filter installs the system call filter in all threads.
func filter(p Profile) error {
	names := known(escapes)
	groups := []seccomp.SyscallGroup{
		{Action: errno, Names: names},
		// A new user name space gives its maker all rights inside; clone3 hides its flags
		// behind a pointer, so programs are sent back to clone.
		{Action: errno, NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "clone", Conditions: seccomp.ArgumentConditions{arg(0, seccomp.BitsSet, unix.CLONE_NEWUSER|unix.CLONE_NEWNS)}},
			// Characters put into a terminal's input are somebody else's typing.
			{Name: "ioctl", Conditions: seccomp.ArgumentConditions{arg(1, seccomp.Equal, unix.TIOCSTI)}},
			{Name: "ioctl", Conditions: seccomp.ArgumentConditions{arg(1, seccomp.Equal, unix.TIOCLINUX)}},
		}},
		{Action: nosys, Names: []string{"clone3"}},
	}
	if !p.ReadAll && len(p.Write) == 0 {
		// Landlock does not see changes of mode, owner, times and attributes.
		groups = append(groups, seccomp.SyscallGroup{Action: errno, Names: known([]string{
			"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "utimensat", "futimesat",
			"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr",
		})})
	}
	switch p.Net {
	case NetNone:
		// Its own server accepts on a unix socket; nothing else is needed.
		groups = append(groups,
			seccomp.SyscallGroup{Action: errno, Names: []string{"connect"}},
			seccomp.SyscallGroup{Action: errno, NamesWithCondtions: []seccomp.NameWithConditions{
				{Name: "socket", Conditions: seccomp.ArgumentConditions{arg(0, seccomp.NotEqual, unix.AF_UNIX)}},
				{Name: "socket", Conditions: seccomp.ArgumentConditions{arg(1, seccomp.BitsSet, unix.SOCK_DGRAM)}},
			}},
		)
	case NetPorts:
		// TCP alone, and datagrams for name resolution; no kind of socket that the port
		// rules do not see.
		groups = append(groups, seccomp.SyscallGroup{Action: errno, NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "socket", Conditions: seccomp.ArgumentConditions{arg(0, seccomp.GreaterThan, unix.AF_INET), arg(0, seccomp.NotEqual, unix.AF_INET6)}},
			{Name: "socket", Conditions: seccomp.ArgumentConditions{arg(0, seccomp.Equal, unix.AF_UNIX), arg(1, seccomp.BitsSet, unix.SOCK_DGRAM)}},
			{Name: "socket", Conditions: seccomp.ArgumentConditions{arg(2, seccomp.Equal, unix.IPPROTO_MPTCP)}},
			{Name: "socket", Conditions: seccomp.ArgumentConditions{arg(2, seccomp.Equal, unix.IPPROTO_SCTP)}},
		}})
	case NetAll:
		groups = append(groups, seccomp.SyscallGroup{Action: errno, NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "socket", Conditions: seccomp.ArgumentConditions{arg(0, seccomp.Equal, unix.AF_NETLINK), arg(2, seccomp.Equal, unix.NETLINK_NETFILTER)}},
			{Name: "socket", Conditions: seccomp.ArgumentConditions{arg(0, seccomp.Equal, unix.AF_PACKET)}},
			{Name: "socket", Conditions: seccomp.ArgumentConditions{arg(0, seccomp.Equal, unix.AF_VSOCK)}},
		}})
	}
	if err := ownArchitecture(); err != nil {
		return fmt.Errorf("architecture filter: %w", err)
	}
	f := seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: groups}}
	if err := seccomp.LoadFilter(f); err != nil {
		return fmt.Errorf("load filter: %w", err)
	}
	return nil
}

// ownArchitecture refuses system calls of another architecture (32-bit ones on a 64-bit
// kernel), whose numbers the filter does not know.
func ownArchitecture() error {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil
	}
	const archOffset = 4 // of struct seccomp_data
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: archOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: arch},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	if e != 0 {
		return e
	}
	return nil
}
