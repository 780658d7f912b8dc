package workspace

import (
	"bytes"
	"path/filepath"
	"strings"
)

// IsBinary says whether bytes are no text: a NUL in the first 8 KiB, or many control
// characters there. Text in UTF-16 is recognised only by its byte order mark.
func IsBinary(b []byte) bool {
	head := b[:min(len(b), 8192)]
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	ctl := 0
	for _, c := range head {
		if c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b && c != '\b' || c == 0x7f {
			ctl++
		}
	}
	return ctl*10 > len(head)
}

var magics = []struct{ prefix, kind string }{
	{"\x89PNG\r\n\x1a\n", "PNG image"}, {"\xff\xd8\xff", "JPEG image"}, {"GIF8", "GIF image"}, {"BM", "BMP image"},
	{"%PDF-", "PDF document"}, {"PK\x03\x04", "ZIP archive"}, {"\x1f\x8b", "gzip data"}, {"BZh", "bzip2 data"},
	{"\xfd7zXZ\x00", "xz data"}, {"\x28\xb5\x2f\xfd", "zstd data"}, {"7z\xbc\xaf", "7z archive"}, {"Rar!", "RAR archive"},
	{"\x7fELF", "ELF program"}, {"MZ", "Windows program"}, {"\xca\xfe\xba\xbe", "Java class or Mach-O"},
	{"\xcf\xfa\xed\xfe", "Mach-O program"}, {"SQLite format 3\x00", "SQLite database"}, {"\x00asm", "WebAssembly module"},
	{"!<arch>\n", "static library"}, {"OggS", "Ogg media"}, {"ID3", "MP3 audio"}, {"fLaC", "FLAC audio"},
	{"wOF2", "WOFF2 font"}, {"\x00\x01\x00\x00", "TrueType font"}, {"\xd0\xcf\x11\xe0", "Office document"}, {"PACK", "git pack"},
}

// Kind names what a binary file is, by its first bytes, else by its name.
func Kind(head []byte, name string) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.prefix)) {
			if m.prefix == "PK\x03\x04" {
				switch strings.ToLower(filepath.Ext(name)) {
				case ".docx", ".xlsx", ".pptx":
					return "Office document"
				case ".jar", ".war":
					return "Java archive"
				}
			}
			return m.kind
		}
	}
	if len(head) > 12 && string(head[:4]) == "RIFF" {
		return "RIFF media (" + strings.TrimSpace(string(head[8:12])) + ")"
	}
	if len(head) > 262 && string(head[257:262]) == "ustar" {
		return "tar archive"
	}
	return "binary data"
}
