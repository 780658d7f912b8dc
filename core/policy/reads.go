package policy

import (
	"os"
	"path/filepath"
	"strings"
)

// Paths that a rule denies to be read, and commands that read more than they name: folders,
// or files whose names other commands give them.

// contentReaders are programs that bring what is in files to their output or to another
// place.
var contentReaders = list{text: `cat head tail wc tac nl rev cut fold fmt paste join expand unexpand column od hexdump xxd hd strings
	comm cmp base64 base32 diff diff3 sdiff grep egrep fgrep zgrep rg ag ack less more bat jq sed awk gawk mawk nawk sort uniq
	cp mv ln link install dd tar zip gzip gunzip zcat bzip2 bzcat xz xzcat zstd 7z cpio rsync scp iconv pr split csplit tee openssl gpg
	sha1sum sha256sum sha512sum md5sum xargs`}

// folderReaders are those that read whole folders, always or with one of these options.
var folderReaders = map[string]string{
	"rg": "", "ag": "", "ack": "", "tar": "", "rsync": "", "7z": "", "mv": "",
	"cp": "rRa", "grep": "rRd", "egrep": "rRd", "fgrep": "rRd", "zgrep": "r", "zip": "r", "scp": "r", "diff": "rN", "ln": "s", "gzip": "r", "install": "",
}

// mayRead is the deny rule about reading that a command may meet though no word of it names
// the file, nil for none.
func (p *Policy) mayRead(l *line, c *command) *rule {
	var rules []*rule
	for _, r := range p.deny {
		if readTools.has(r.tool) {
			rules = append(rules, r)
		}
	}
	if rules == nil || len(c.words) == 0 || !c.words[0].whole() {
		return nil
	}
	name, args := base(c.words[0].text), c.words[1:]
	if name == "git" {
		sub := gitSub(c.words)
		if sub < len(c.words) && in(c.words[sub].text, "grep", "archive", "bundle", "cat-file") {
			return p.below(rules, c.cwds, ".")
		}
		return nil
	}
	if !contentReaders.has(name) {
		return nil
	}
	for _, x := range args {
		if strings.Contains(x.text, "{}") {
			return rules[0] // what find or xargs puts there
		}
	}
	if p.harmless(l, c) {
		return nil
	}
	flags, folders := folderReaders[name]
	whole, operands := folders && flags == "", 0
	for _, x := range args {
		if strings.HasPrefix(x.text, "--") {
			whole = whole || in(x.text, "--recursive", "--archive", "--dereference-recursive", "--symbolic")
		} else if strings.HasPrefix(x.text, "-") {
			whole = whole || strings.ContainsAny(x.text, flags) && flags != ""
		}
	}
	for _, x := range args {
		switch {
		case x.odd || x.substituted || strings.Contains(x.text, hole):
			return rules[0] // a file whose name is known only when the line runs
		case strings.HasPrefix(x.text, "-") && x.glob == "":
			continue
		}
		operands++
		if !whole {
			continue
		}
		list := []string{x.text}
		if x.glob != "" {
			list = nil
			for _, d := range c.cwds {
				more, _ := p.expand(l, d, x.glob)
				list = append(list, more...)
			}
		}
		for _, t := range list {
			if r := p.below(rules, c.cwds, t); r != nil {
				return r
			}
		}
	}
	if whole && operands <= 1 && in(name, "rg", "ag", "ack", "grep", "egrep", "fgrep", "zgrep") {
		return p.below(rules, c.cwds, ".")
	}
	return nil
}

// below is the rule that denies to read something in a folder, nil for none and for what is
// no folder.
func (p *Policy) below(rules []*rule, cwds []string, t string) *rule {
	for _, d := range cwds {
		if !filepath.IsAbs(t) {
			t = filepath.Join(d, t)
		}
		if fi, err := os.Stat(t); err != nil || !fi.IsDir() {
			continue
		}
		for _, r := range rules {
			if r.all || strings.ContainsAny(r.pattern, "*?[") {
				return r
			}
			at := r.pattern
			if !filepath.IsAbs(at) {
				at = filepath.Join(p.dir, at)
			}
			if rel, err := filepath.Rel(t, at); err == nil && filepath.IsLocal(rel) {
				return r
			}
		}
	}
	return nil
}

// codeReads is the deny rule about reading whose file is named by code that the parser does
// not see, nil for none.
func (p *Policy) codeReads(l *line) *rule {
	if !l.hidden && l.broken == "" && l.strange == "" {
		return nil
	}
	for _, r := range p.deny {
		if !readTools.has(r.tool) || r.all || r.pattern == "" {
			continue
		}
		if name := filepath.Base(r.pattern); !strings.ContainsAny(name, "*?[") && strings.Contains(l.src, name) {
			return r
		}
	}
	return nil
}
