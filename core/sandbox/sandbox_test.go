//go:build linux

package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lingjiyidong/lj/core/sandbox"
)

// The test binary plays the confined process: it enters the profile, tries what it is
// told to try, and prints what happened.
func TestMain(m *testing.M) {
	if p := os.Getenv("SANDBOX_TEST_PROFILE"); p != "" {
		os.Exit(confined(p))
	}
	os.Exit(m.Run())
}

type place struct{ Project, Outside, Home, Socket, Addr string }

func confined(encoded string) int {
	p, err := sandbox.Decode(encoded)
	if err != nil {
		fmt.Println("profile:", err)
		return 2
	}
	if _, err := sandbox.Enter(p); err != nil {
		fmt.Println("enter:", err)
		return 2
	}
	var at place
	if err := json.Unmarshal([]byte(os.Getenv("SANDBOX_TEST_PLACE")), &at); err != nil {
		fmt.Println("place:", err)
		return 2
	}
	for _, a := range attempts {
		err := a.try(at)
		fmt.Printf("%s\t%v\n", a.name, err == nil)
	}
	return 0
}

func write(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }

func sh(script string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "/bin/sh", "-c", script).Run()
}

func socket(domain, kind, proto int) error {
	fd, err := unix.Socket(domain, kind, proto)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// attempts are what a process may try; classes says who may succeed: b the bash class, t a
// tool that may read its project, n a tool with network.
var attempts = []struct {
	name, may string
	try       func(at place) error
}{
	{"read project", "btn", func(at place) error { _, err := os.ReadFile(at.Project + "/a.txt"); return err }},
	{"write project", "b", func(at place) error { return write(at.Project + "/new.txt") }},
	{"overwrite project", "b", func(at place) error { return write(at.Project + "/a.txt") }},
	{"mkdir and rename", "b", func(at place) error {
		return errors.Join(os.MkdirAll(at.Project+"/d/e", 0o755), os.Rename(at.Project+"/d/e", at.Project+"/d/f"))
	}},
	{"read outside", "b", func(at place) error { _, err := os.ReadFile(at.Outside + "/o.txt"); return err }},
	{"read /etc/passwd", "b", func(place) error { _, err := os.ReadFile("/etc/passwd"); return err }},
	{"list /", "b", func(place) error { _, err := os.ReadDir("/"); return err }},
	{"write outside", "", func(at place) error { return write(at.Outside + "/n.txt") }},
	{"truncate outside", "", func(at place) error { return os.Truncate(at.Outside+"/o.txt", 0) }},
	{"remove outside", "", func(at place) error { return os.Remove(at.Outside + "/gone.txt") }},
	{"chmod outside", "", func(at place) error { return os.Chmod(at.Outside+"/o.txt", 0o600) }},
	{"chown outside", "", func(at place) error { return os.Chown(at.Outside+"/o.txt", os.Getuid(), os.Getgid()) }},
	{"touch outside", "", func(at place) error { return os.Chtimes(at.Outside+"/o.txt", time.Now(), time.Now()) }},
	{"chmod inside", "b", func(at place) error { return os.Chmod(at.Project+"/a.txt", 0o600) }},
	{"link out", "", func(at place) error { return os.Link(at.Outside+"/o.txt", at.Project+"/hard") }},
	{"write through link", "", func(at place) error {
		_ = os.Symlink(at.Outside, at.Project+"/esc") // the next line tells
		return write(at.Project + "/esc/evil.txt")
	}},
	{"write .git/config", "", func(at place) error { return write(at.Project + "/.git/config") }},
	{"append .git/config", "", func(at place) error { return sh("echo x >> '" + at.Project + "/.git/config'") }},
	{"rename over .git/config", "", func(at place) error {
		return errors.Join(write(at.Project+"/c"), os.Rename(at.Project+"/c", at.Project+"/.git/config"))
	}},
	{"rename .git", "", func(at place) error { return os.Rename(at.Project+"/.git", at.Project+"/.git2") }},
	{"new hook", "", func(at place) error { return write(at.Project + "/.git/hooks/pre-commit") }},
	{"remove hooks", "", func(at place) error { return os.RemoveAll(at.Project + "/.git/hooks") }},
	{"chmod hook", "", func(at place) error { return os.Chmod(at.Project+"/.git/hooks/old", 0o777) }},
	{"write objects", "b", func(at place) error { return write(at.Project + "/.git/objects/x") }},
	{"write .agent/config.yaml", "", func(at place) error { return write(at.Project + "/.agent/config.yaml") }},
	{"remove .agent/config.yaml", "", func(at place) error { return os.Remove(at.Project + "/.agent/config.yaml") }},
	{"write .agent/memory.md", "b", func(at place) error { return write(at.Project + "/.agent/memory.md") }},
	{"read home", "", func(at place) error { _, err := os.ReadFile(at.Home + "/config.yaml"); return err }},
	{"write home", "", func(at place) error { return write(at.Home + "/config.yaml") }},
	{"new in home", "", func(at place) error { return write(at.Home + "/x") }},
	{"write to home by shell", "", func(at place) error { return sh("printf x > '" + at.Home + "/y'") }},
	{"tee to home", "", func(at place) error { return sh("echo x | tee '" + at.Home + "/z' >/dev/null") }},
	{"mount", "", func(at place) error { return unix.Mount("tmpfs", at.Project, "tmpfs", 0, "") }},
	{"unmount", "", func(at place) error { return unix.Unmount(at.Home, unix.MNT_DETACH) }},
	{"remount writable", "", func(at place) error {
		return unix.Mount("", at.Project+"/.git/config", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	}},
	{"new user name space", "", func(place) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return cmd.Run()
	}},
	{"unshare", "", func(place) error { return unix.Unshare(unix.CLONE_NEWNS) }},
	{"chroot", "", func(at place) error { return unix.Chroot(at.Project) }},
	{"signal parent", "", func(place) error { return syscall.Kill(os.Getppid(), 0) }},
	{"trace parent", "", func(place) error { return unix.PtraceAttach(os.Getppid()) }},
	{"environment of parent", "", func(place) error {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
		return err
	}},
	{"memory of parent", "", func(place) error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", os.Getppid()), os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"root of parent", "", func(at place) error {
		return write(fmt.Sprintf("/proc/%d/root%s/n2.txt", os.Getppid(), at.Outside))
	}},
	{"tcp connect", "bn", func(at place) error {
		c, err := net.DialTimeout("tcp", at.Addr, 2*time.Second)
		if err == nil {
			c.Close()
		}
		return err
	}},
	{"mptcp", "b", func(place) error { return socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP) }},
	{"udp", "bn", func(place) error { return socket(unix.AF_INET, unix.SOCK_DGRAM, 0) }},
	{"raw socket", "", func(place) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	{"packet socket", "", func(place) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
	{"vsock", "", func(place) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
	{"unix socket of another", "", func(at place) error {
		c, err := net.DialTimeout("unix", at.Socket, 2*time.Second)
		if err == nil {
			c.Close()
		}
		return err
	}},
	{"unix datagram", "b", func(place) error { return socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0) }},
	{"io_uring", "", func(place) error {
		fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		if e != 0 {
			if e == unix.EFAULT {
				return nil // it was looked at
			}
			return e
		}
		unix.Close(int(fd))
		return nil
	}},
	{"bpf", "", func(place) error {
		_, _, e := unix.Syscall(unix.SYS_BPF, 0, 0, 0)
		if e == unix.EPERM {
			return e
		}
		return nil
	}},
	{"keyctl", "", func(place) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true); return err }},
	{"type into the terminal", "", func(place) error {
		var c byte
		_, _, e := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(c))
		return e
	}},
	{"settime", "", func(place) error { return unix.Settimeofday(&unix.Timeval{}) }},
	{"mknod", "", func(at place) error { return unix.Mknod(at.Project+"/disk", unix.S_IFBLK|0o600, 1<<8) }},
	{"run a shell", "b", func(place) error { return sh("true") }},
	{"run git", "b", func(at place) error { return exec.Command("git", "-C", at.Project, "--version").Run() }},
	{"/dev/null", "btn", func(place) error { return write("/dev/null") }},
	{"large file", "", func(at place) error {
		f, err := os.Create(at.Project + "/large")
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Truncate(64 << 20)
	}},
	{"write /proc/sys", "", func(place) error { return os.WriteFile("/proc/sys/kernel/hostname", []byte("x"), 0o644) }},
	{"write /sys", "", func(place) error { return os.WriteFile("/sys/power/state", []byte(""), 0o644) }},
	{"write cron", "", func(place) error { return write("/etc/cron.d/lj-sandbox-test") }},
	{"write profile", "", func(place) error {
		f, err := os.OpenFile("/etc/profile", os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			f.Close()
		}
		return err
	}},
}

// Every behaviour is tried by a really confined process of each class.
func TestClasses(t *testing.T) {
	rep := sandbox.Probe()
	if !rep.Full() {
		t.Skipf("this machine enforces only a part: %v", rep.Missing)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go accept(l)
	for class, profile := range map[string]func(at place) sandbox.Profile{
		"b": func(at place) sandbox.Profile {
			return sandbox.Profile{
				ReadAll: true, Write: []string{at.Project}, Net: sandbox.NetAll, FileSize: 32 << 20,
				Protect: []string{at.Project + "/.git/config", at.Project + "/.git/hooks", at.Project + "/.agent/config.yaml"},
				Pin:     []string{at.Project + "/.git", at.Project + "/.agent"},
				Hide:    []string{at.Home, at.Socket},
			}
		},
		"t": func(at place) sandbox.Profile {
			return sandbox.Profile{Read: []string{at.Project}, Exec: []string{os.Args[0]}, FileSize: 32 << 20}
		},
		"n": func(at place) sandbox.Profile {
			var port uint16
			fmt.Sscanf(at.Addr[strings.LastIndexByte(at.Addr, ':')+1:], "%d", &port)
			return sandbox.Profile{Read: []string{at.Project}, Net: sandbox.NetPorts, Ports: []uint16{port}, FileSize: 32 << 20}
		},
	} {
		t.Run(class, func(t *testing.T) {
			at := build(t, l.Addr().String())
			got := runConfined(t, profile(at), at)
			for _, a := range attempts {
				may := strings.Contains(a.may, class)
				ok, tried := got[a.name]
				if class == "n" && a.name == "unix socket of another" {
					continue // path sockets can't be told from ports by this kernel
				}
				if !tried {
					t.Errorf("%s: not tried", a.name)
				} else if ok != may {
					t.Errorf("%s: allowed %v, want %v", a.name, ok, may)
				}
			}
			for _, path := range []string{at.Outside + "/n.txt", at.Outside + "/n2.txt", at.Outside + "/evil.txt", at.Home + "/x", at.Home + "/y", at.Home + "/z", "/etc/cron.d/lj-sandbox-test"} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("%s was made", path)
				}
			}
		})
	}
}

func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Close()
	}
}

func build(t *testing.T, addr string) place {
	t.Helper()
	dir := t.TempDir()
	at := place{Project: dir + "/project", Outside: dir + "/outside", Home: dir + "/home", Socket: dir + "/s.sock", Addr: addr}
	for _, d := range []string{at.Project + "/.git/hooks", at.Project + "/.git/objects", at.Project + "/.agent", at.Outside, at.Home} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"project/a.txt", "project/.git/config", "project/.git/hooks/old", "project/.agent/config.yaml", "outside/o.txt", "outside/gone.txt", "home/config.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", at.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go accept(l)
	return at
}

func runConfined(t *testing.T, p sandbox.Profile, at place) map[string]bool {
	t.Helper()
	placeJSON, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SANDBOX_TEST_PROFILE=" + p.Encode(), "SANDBOX_TEST_PLACE=" + string(placeJSON)}
	cmd.Stdin = nil
	sandbox.Prepare(cmd, p)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := map[string]bool{}
	for line := range strings.SplitSeq(string(out), "\n") {
		if name, ok, cut := strings.Cut(line, "\t"); cut {
			got[name] = ok == "true"
		}
	}
	return got
}

func BenchmarkEnter(b *testing.B) {
	dir := b.TempDir()
	p := sandbox.Profile{ReadAll: true, Write: []string{dir}, Net: sandbox.NetAll}
	at, err := json.Marshal(place{})
	if err != nil {
		b.Fatal(err)
	}
	_ = at
	for b.Loop() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{"SANDBOX_TEST_PROFILE=" + p.Encode(), "SANDBOX_TEST_PLACE="}
		sandbox.Prepare(cmd, p)
		_ = cmd.Run() // ends with status 2 after it entered
	}
}
