package toolkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/core/sandbox"
)

// Profile is what the kernel holds a tool to for its permissions. Beside them a tool may
// read what every program needs (time zones; certificates and resolver files with net; the
// libraries of programs with exec) and nothing else. sockets is the folder of its server's
// socket, "" for none. It is used for test programs, for the contract and for live tools.
func (c Confinement) Profile(sockets string) sandbox.Profile {
	p := sandbox.Profile{
		Exec: []string{c.Program}, Sockets: sockets, FileSize: 1 << 30, Files: 1024, Memory: 1 << 30,
		Read: []string{"/usr/share/zoneinfo", "/etc/localtime", "/etc/timezone", "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"},
	}
	if c.Temp != "" {
		p.Write = append(p.Write, c.Temp)
	}
	in := func(list []string) []string {
		var out []string
		for _, s := range list {
			if filepath.IsAbs(s) || s == ".." || strings.HasPrefix(s, "../") {
				continue
			}
			out = append(out, filepath.Join(c.Project, filepath.FromSlash(s)))
		}
		return out
	}
	p.Read = append(p.Read, in(c.Permissions.Read)...)
	p.Write = append(p.Write, in(c.Permissions.Write)...)
	for _, hp := range c.Permissions.Net {
		if i := strings.LastIndexByte(hp, ':'); i >= 0 {
			if n, err := strconv.ParseUint(hp[i+1:], 10, 16); err == nil {
				p.Net = sandbox.NetPorts
				p.Ports = append(p.Ports, uint16(n))
			}
		}
	}
	if p.Net == sandbox.NetPorts {
		p.Read = append(p.Read, "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates",
			"/run/systemd/resolve")
	}
	if len(c.Permissions.Exec) > 0 {
		p.Exec = append(p.Exec, "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local/lib")
		p.Read = append(p.Read, "/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/usr/share", "/etc/alternatives")
		for _, name := range c.Permissions.Exec {
			if strings.ContainsRune(name, filepath.Separator) {
				continue
			}
			f, err := exec.LookPath(name)
			if err != nil {
				continue
			}
			p.Exec = append(p.Exec, f)
			if real, err := filepath.EvalSymlinks(f); err == nil && real != f {
				p.Exec = append(p.Exec, real)
			}
		}
	}
	return p
}

// MakeWritable makes what Permissions.Write names below the project and is not there: the
// kernel can only allow what exists, and allowing the folder above would be more than was
// asked for. A name with an extension becomes an empty file, another a folder.
func (c Confinement) MakeWritable() error {
	root, err := os.OpenRoot(c.Project)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, w := range c.Permissions.Write {
		w = filepath.FromSlash(w)
		if _, err := root.Stat(w); err == nil || !filepath.IsLocal(w) {
			continue
		}
		dir := w
		if filepath.Ext(w) != "" {
			dir = filepath.Dir(w)
		}
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if dir == w {
			continue
		}
		f, err := root.OpenFile(w, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
