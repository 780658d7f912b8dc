// Command uuid_tool makes UUIDs of versions 4 and 7 (RFC 9562) and reads UUIDs.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Action string `json:"action" jsonschema:"v4: random, v7: sortable by time, parse: read one" enum:"v4,v7,parse"`
	Count  int    `json:"count,omitempty" jsonschema:"how many to make" minimum:"1" maximum:"1000" default:"1"`
	UUID   string `json:"uuid,omitempty" jsonschema:"for parse: also with urn:uuid:, braces or without hyphens"`
}

type uuid [16]byte

func (u uuid) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func Run(_ context.Context, in Args) (string, error) {
	if in.Action == "parse" {
		return parse(in.UUID)
	}
	if in.Action != "v4" && in.Action != "v7" {
		return "", fmt.Errorf("action %q: v4, v7 or parse", in.Action)
	}
	if in.Count == 0 {
		in.Count = 1
	}
	if in.Count < 1 || in.Count > 1000 {
		return "", fmt.Errorf("count %d: 1 to 1000", in.Count)
	}
	var out []string
	at := time.Now().UnixMilli()
	for i := range in.Count {
		var u uuid
		if _, err := rand.Read(u[:]); err != nil {
			return "", err
		}
		version := byte(4)
		if in.Action == "v7" {
			version = 7
			var ms [8]byte
			binary.BigEndian.PutUint64(ms[:], uint64(at))
			copy(u[:6], ms[2:])
			// The 12 bits after the time count, so that those made together are in order.
			binary.BigEndian.PutUint16(u[6:], uint16(i))
		}
		u[6] = u[6]&0x0f | version<<4
		u[8] = u[8]&0x3f | 0x80
		out = append(out, u.String())
	}
	return strings.Join(out, "\n"), nil
}

func parse(s string) (string, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	t = strings.TrimPrefix(t, "urn:uuid:")
	if strings.HasPrefix(t, "{") && strings.HasSuffix(t, "}") {
		t = t[1 : len(t)-1]
	}
	if len(t) == 36 && t[8] == '-' && t[13] == '-' && t[18] == '-' && t[23] == '-' {
		t = strings.ReplaceAll(t, "-", "")
	}
	b, err := hex.DecodeString(t)
	if err != nil || len(b) != 16 {
		return "", fmt.Errorf("%q is not a UUID: 32 hex digits in groups of 8-4-4-4-12", s)
	}
	u := uuid(b)
	out := "uuid: " + u.String()
	switch {
	case u == uuid{}:
		return out + "\nthe nil UUID", nil
	case strings.Trim(t, "f") == "":
		return out + "\nthe max UUID", nil
	case u[8]&0xc0 != 0x80:
		return out + "\nvariant: not that of RFC 9562", nil
	}
	v := u[6] >> 4
	names := map[byte]string{1: "time and node", 2: "DCE security", 3: "name, MD5", 4: "random", 5: "name, SHA-1", 6: "time, reordered", 7: "Unix time", 8: "custom"}
	name := names[v]
	if name == "" {
		name = "not defined"
	}
	out += fmt.Sprintf("\nversion: %d (%s)", v, name)
	ticks := uint64(0) // of 100 ns since 1582-10-15
	switch v {
	case 1:
		ticks = uint64(binary.BigEndian.Uint16(u[6:])&0x0fff)<<48 | uint64(binary.BigEndian.Uint16(u[4:]))<<32 | uint64(binary.BigEndian.Uint32(u[:]))
	case 6:
		ticks = uint64(binary.BigEndian.Uint32(u[:]))<<28 | uint64(binary.BigEndian.Uint16(u[4:]))<<12 | uint64(binary.BigEndian.Uint16(u[6:])&0x0fff)
	case 7:
		ms := binary.BigEndian.Uint64(u[:]) >> 16
		return out + "\ntime: " + time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z"), nil
	default:
		return out, nil
	}
	d := int64(ticks) - 0x01b21dd213814000
	sec, rest := d/1e7, d%1e7
	return out + "\ntime: " + time.Unix(sec, rest*100).UTC().Format("2006-01-02T15:04:05.0000000Z"), nil
}

func main() {
	sdk.Serve("uuid_tool", "Makes UUIDs (v4, v7) and reads a UUID: version, variant, time", Run)
}
