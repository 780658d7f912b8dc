package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

func prepare(cmd *exec.Cmd, p Profile) {
	if !p.needsMounts() || !Probe().Mounts {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	namespaces(cmd.SysProcAttr)
}

// namespaces gives a new process a mount name space of its own: root directly, so that it
// keeps its rights over the files of others; everybody else through a user name space in
// which the user is himself.
func namespaces(a *syscall.SysProcAttr) {
	a.Cloneflags |= syscall.CLONE_NEWNS
	if os.Geteuid() == 0 && hasCap(unix.CAP_SYS_ADMIN) {
		return
	}
	a.Cloneflags |= syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	a.GidMappingsEnableSetgroups = false
	a.AmbientCaps = append(a.AmbientCaps, unix.CAP_SYS_ADMIN)
}

func hasCap(c int) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}

var probe = sync.OnceValue(func() Report {
	r := Report{NoNewPrivs: true}
	if v, err := llsys.LandlockGetABIVersion(); err == nil && v > 0 {
		r.Landlock = v
	}
	if _, err := os.Stat("/proc/sys/kernel/seccomp/actions_avail"); err == nil {
		r.Seccomp = true
	} else if unix.Prctl(unix.PR_GET_SECCOMP, 0, 0, 0, 0) == nil {
		r.Seccomp = true
	}
	r.Mounts = canMount()
	switch {
	case r.Landlock == 0:
		r.Missing = append(r.Missing, "files: the kernel has no Landlock (5.13 or newer, CONFIG_SECURITY_LANDLOCK, lsm=landlock)")
	case r.Landlock < 3:
		r.Missing = append(r.Missing, fmt.Sprintf("files: Landlock version %d can't refuse truncating (kernel 6.2 or newer)", r.Landlock))
	case r.Landlock < 4:
		r.Missing = append(r.Missing, fmt.Sprintf("network ports: Landlock version %d (kernel 6.7 or newer)", r.Landlock))
	}
	if r.Landlock > 0 && r.Landlock < 6 {
		r.Missing = append(r.Missing, fmt.Sprintf("signals and abstract sockets: Landlock version %d (kernel 6.12 or newer)", r.Landlock))
	}
	if !r.Seccomp {
		r.Missing = append(r.Missing, "network: the kernel has no seccomp filters")
	}
	if r.Mounts && !canSetattr() {
		r.Missing = append(r.Missing, "modes, owners and times of files elsewhere: no mount_setattr (kernel 5.12 or newer)")
	}
	if !r.Mounts {
		r.Missing = append(r.Missing, "guarded files inside the project and other programs' sockets: no mount name space for this user (user name spaces are switched off)")
	}
	return r
})

// Probe says what this machine can enforce. It looks once for a process.
func Probe() Report { return probe() }

// canSetattr asks whether the kernel can make a tree of mounts read-only.
func canSetattr() bool {
	err := unix.MountSetattr(-1, "", 0, &unix.MountAttr{})
	return !errors.Is(err, unix.ENOSYS)
}

// canMount asks whether a process with a mount name space of its own can be started.
func canMount() bool {
	if os.Geteuid() == 0 && hasCap(unix.CAP_SYS_ADMIN) {
		return true
	}
	for _, f := range []string{"/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone"} {
		if b, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(b)) == "0" {
			return false
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"); err == nil && strings.TrimSpace(string(b)) == "1" {
		return false
	}
	return true
}

// Enter confines this process and all that it starts, for good. It must be called before
// the process does anything else. An error means that the process must not go on.
//
// Landlock confines each thread by a domain of its own, and a thread may neither signal nor
// trace what another one has started. A process that goes on to start others and to watch
// them must exec after Enter, which leaves one thread and with it one domain.
func Enter(p Profile) (Report, error) {
	r := Report{}
	if p.needsMounts() && Probe().Mounts {
		if err := mounts(p); err != nil {
			return r, fmt.Errorf("protect files: %w", err)
		}
		r.Mounts = true
	}
	if err := limits(p); err != nil {
		return r, fmt.Errorf("set limits: %w", err)
	}
	if err := dropCaps(); err != nil {
		return r, fmt.Errorf("drop capabilities: %w", err)
	}
	if Probe().Landlock > 0 {
		if err := restrict(p); err != nil {
			return r, fmt.Errorf("landlock: %w", err)
		}
		r.Landlock = Probe().Landlock
	}
	if Probe().Seccomp {
		if err := filter(p); err != nil {
			return r, fmt.Errorf("seccomp: %w", err)
		}
		r.Seccomp = true
	}
	r.NoNewPrivs = true
	r.Missing = Probe().Missing
	return r, nil
}

// mounts makes protected places read-only and hidden ones empty, in this process's own
// mount name space.
func mounts(p Profile) error {
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount name space: %w", err)
	}
	if err := readOnlyWorld(p); err != nil {
		return err
	}
	// The socket folder must stay in reach when it lies in a hidden place.
	sockets := -1
	if p.Sockets != "" {
		fd, err := unix.Open(p.Sockets, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", p.Sockets, err)
		}
		sockets = fd
		defer unix.Close(fd)
	}
	for _, path := range unique(p.Pin) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // what is not there can't be pinned
		}
		if err := unix.Mount(real, real, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("pin %s: %w", path, err)
		}
	}
	for _, path := range unique(p.Protect) {
		if err := readOnly(path); err != nil {
			return err
		}
	}
	for _, path := range unique(p.Hide) {
		fi, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			continue // what can't be seen need not be hidden
		}
		if !fi.IsDir() {
			if err := unix.Mount("/dev/null", path, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("hide %s: %w", path, err)
			}
			continue
		}
		if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=0755"); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
		if rel, err := filepath.Rel(path, p.Sockets); sockets >= 0 && err == nil && rel != "." && !strings.HasPrefix(rel, "..") {
			if err := os.MkdirAll(p.Sockets, 0o700); err != nil {
				return fmt.Errorf("keep %s: %w", p.Sockets, err)
			}
			if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", sockets), p.Sockets, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("keep %s: %w", p.Sockets, err)
			}
		}
		if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// readOnlyWorld makes everything read-only but what the profile may write. Landlock guards
// the content of files; this guards their modes, owners, times and attributes too.
func readOnlyWorld(p Profile) error {
	keep := append([]string{"/proc", "/dev/shm", "/dev/pts", "/dev/mqueue"}, p.Write...)
	if p.Sockets != "" {
		keep = append(keep, p.Sockets)
	}
	var open []string
	for _, path := range unique(keep) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // what is not there can't be written
		}
		open = append(open, real)
	}
	before, err := mountPoints()
	if err != nil {
		return err
	}
	for _, path := range open {
		if _, ok := before[path]; ok {
			continue
		}
		if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("keep %s writable: %w", path, err)
		}
	}
	err = unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if errors.Is(err, unix.ENOSYS) {
		return nil // before Linux 5.12; Probe names it
	}
	if err != nil {
		return fmt.Errorf("make the file system read-only: %w", err)
	}
	// Open again what may be written, and the mounts below it that were writable.
	for _, path := range open {
		if ro, ok := before[path]; ok && ro {
			continue
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("keep %s writable: %w", path, err)
		}
		for m, ro := range before {
			if !ro && strings.HasPrefix(m, path+"/") {
				// One that went away in the meantime needs nothing.
				_ = unix.MountSetattr(unix.AT_FDCWD, m, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
			}
		}
	}
	return nil
}

// mountPoints are the mounts of this name space, with whether each is read-only.
func mountPoints() (map[string]bool, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	out := map[string]bool{}
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		path := mountName.Replace(f[4])
		out[path] = false
		for o := range strings.SplitSeq(f[5], ",") {
			if o == "ro" {
				out[path] = true
			}
		}
	}
	return out, nil
}

// mountName undoes the quoting of mountinfo.
var mountName = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func readOnly(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("protect %s: %w", path, err)
	}
	if err := unix.Mount(real, real, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("protect %s: %w", path, err)
	}
	// Flags that the file system below has must be kept in a user name space.
	var st unix.Statfs_t
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY)
	if err := unix.Statfs(real, &st); err == nil {
		for _, f := range []struct{ st, ms int64 }{
			{unix.ST_NOSUID, unix.MS_NOSUID}, {unix.ST_NODEV, unix.MS_NODEV}, {unix.ST_NOEXEC, unix.MS_NOEXEC},
			{unix.ST_NOATIME, unix.MS_NOATIME}, {unix.ST_NODIRATIME, unix.MS_NODIRATIME}, {unix.ST_RELATIME, unix.MS_RELATIME},
		} {
			if int64(st.Flags)&f.st != 0 {
				flags |= uintptr(f.ms)
			}
		}
	}
	if err := unix.Mount("", real, "", flags, ""); err != nil {
		return fmt.Errorf("protect %s: %w", path, err)
	}
	return nil
}

func limits(p Profile) error {
	for _, l := range []struct {
		what int
		v    uint64
	}{
		{unix.RLIMIT_FSIZE, p.FileSize}, {unix.RLIMIT_NOFILE, p.Files}, {unix.RLIMIT_NPROC, p.Processes},
		{unix.RLIMIT_DATA, p.Memory}, {unix.RLIMIT_CPU, p.CPU},
	} {
		if l.v == 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(l.what, &now); err != nil {
			return err
		}
		v := min(l.v, now.Max)
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: v, Max: v}); err != nil {
			return err
		}
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// dropped are the capabilities that could undo confinement or reach beyond it. Those over
// files and users stay, so that root keeps working on files of others.
var dropped = []uint{
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_BOOT, unix.CAP_SYS_TIME,
	unix.CAP_SYS_RESOURCE, unix.CAP_SYS_PACCT, unix.CAP_SYS_TTY_CONFIG, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_MKNOD,
	unix.CAP_MAC_ADMIN, unix.CAP_MAC_OVERRIDE, unix.CAP_SYSLOG, unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_CHECKPOINT_RESTORE,
	unix.CAP_LINUX_IMMUTABLE, unix.CAP_AUDIT_CONTROL, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_CHROOT,
}

// dropCaps sets no_new_privs and takes capabilities away, in all threads.
func dropCaps() error {
	if _, _, e := psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e := psx.Syscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); e != 0 && e != syscall.EINVAL {
		return e
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	own := os.Geteuid() != 0 // in a user name space of his own a user keeps nothing
	for i := range data {
		if own {
			data[i] = unix.CapUserData{}
		}
	}
	for _, c := range dropped {
		bit := uint32(1) << (c % 32)
		data[c/32].Effective &^= bit
		data[c/32].Permitted &^= bit
		data[c/32].Inheritable &^= bit
		if _, _, e := psx.Syscall3(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); e != 0 && e != syscall.EPERM && e != syscall.EINVAL {
			return e
		}
	}
	return capset(&hdr, &data)
}

// restrict sets the Landlock rules. Rights that the kernel does not know are left out;
// Probe names them.
func restrict(p Profile) error {
	var rules []landlock.Rule
	if p.ReadAll {
		rules = append(rules, landlock.RODirs("/"))
	}
	for _, r := range []struct {
		paths []string
		dir   func(...string) landlock.FSRule
		file  func(...string) landlock.FSRule
	}{
		{p.Read, readDirs, readFiles},
		{p.Exec, landlock.RODirs, landlock.ROFiles},
		{p.Write, func(s ...string) landlock.FSRule { return landlock.RWDirs(s...).WithRefer() }, landlock.RWFiles},
	} {
		for _, path := range unique(r.paths) {
			fi, err := os.Stat(path)
			if err != nil {
				continue // what is not there can't be allowed
			}
			if fi.IsDir() {
				rules = append(rules, r.dir(path))
			} else {
				rules = append(rules, r.file(path))
			}
		}
	}
	if p.Sockets != "" {
		rules = append(rules, landlock.RWDirs(p.Sockets))
	}
	for _, dev := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		if _, err := os.Stat(dev); err == nil {
			rules = append(rules, landlock.RWFiles(dev).WithIoctlDev())
		}
	}
	if p.ReadAll {
		for _, dev := range []string{"/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"} {
			if fi, err := os.Stat(dev); err == nil {
				if fi.IsDir() {
					rules = append(rules, landlock.RWDirs(dev).WithRefer().WithIoctlDev())
				} else {
					rules = append(rules, landlock.RWFiles(dev).WithIoctlDev())
				}
			}
		}
	}
	cfg := landlock.V7.BestEffort()
	switch p.Net {
	case NetAll:
		// No rule about ports: everything is allowed.
		if err := landlock.V7.BestEffort().RestrictPaths(rules...); err != nil {
			return err
		}
		return landlock.V7.BestEffort().RestrictScoped()
	case NetPorts:
		for _, port := range p.Ports {
			rules = append(rules, landlock.ConnectTCP(port))
		}
	}
	return cfg.Restrict(rules...)
}

// Reading without executing.
const readDirRights landlock.AccessFSSet = llsys.AccessFSReadFile | llsys.AccessFSReadDir

func readDirs(paths ...string) landlock.FSRule { return landlock.PathAccess(readDirRights, paths...) }

func readFiles(paths ...string) landlock.FSRule {
	return landlock.PathAccess(llsys.AccessFSReadFile, paths...)
}
