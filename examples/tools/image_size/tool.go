// Command image_size reads width and height of PNG, JPEG, GIF, WebP and BMP files from
// their headers.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Path string `json:"path" jsonschema:"image file, relative to the project"`
}

type Size struct {
	Format string `json:"format"`
	Width  int    `json:"width"` // pixels as stored; EXIF rotation is not applied
	Height int    `json:"height"`
	Bytes  int64  `json:"bytes"`
}

func Run(ctx context.Context, in Args) (Size, error) {
	f, err := os.Open(sdk.Path(ctx, in.Path))
	if err != nil {
		return Size{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Size{}, err
	}
	if !st.Mode().IsRegular() {
		return Size{}, fmt.Errorf("%s is not a regular file", in.Path)
	}
	s, err := read(f)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends within its header")
	}
	if err != nil {
		return Size{}, fmt.Errorf("%s: %w", in.Path, err)
	}
	if s.Width == 0 || s.Height == 0 {
		return Size{}, fmt.Errorf("%s: the %s header says %d×%d", in.Path, s.Format, s.Width, s.Height)
	}
	s.Bytes = st.Size()
	return s, nil
}

func read(r io.Reader) (Size, error) {
	h := make([]byte, 30)
	n, err := io.ReadFull(r, h)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Size{}, err
	}
	h = h[:n]
	be, le := binary.BigEndian, binary.LittleEndian
	need := func(k int) error {
		if len(h) < k {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	switch {
	case bytes.HasPrefix(h, []byte("\x89PNG\r\n\x1a\n")):
		if err := need(24); err != nil {
			return Size{}, err
		}
		if string(h[12:16]) != "IHDR" {
			return Size{}, errors.New("a PNG without IHDR")
		}
		return Size{Format: "png", Width: int(be.Uint32(h[16:])), Height: int(be.Uint32(h[20:]))}, nil
	case bytes.HasPrefix(h, []byte("GIF87a")), bytes.HasPrefix(h, []byte("GIF89a")):
		if err := need(10); err != nil {
			return Size{}, err
		}
		return Size{Format: "gif", Width: int(le.Uint16(h[6:])), Height: int(le.Uint16(h[8:]))}, nil
	case bytes.HasPrefix(h, []byte("BM")):
		if err := need(26); err != nil {
			return Size{}, err
		}
		if le.Uint32(h[14:]) == 12 { // the header of OS/2
			return Size{Format: "bmp", Width: int(le.Uint16(h[18:])), Height: int(le.Uint16(h[20:]))}, nil
		}
		// A negative height means rows from the top.
		height := int(int32(le.Uint32(h[22:])))
		return Size{Format: "bmp", Width: int(int32(le.Uint32(h[18:]))), Height: max(height, -height)}, nil
	case len(h) >= 12 && string(h[:4]) == "RIFF" && string(h[8:12]) == "WEBP":
		if err := need(30); err != nil {
			return Size{}, err
		}
		return webp(h)
	case bytes.HasPrefix(h, []byte("\xff\xd8")):
		return readJPEG(bufio.NewReader(io.MultiReader(bytes.NewReader(h[2:]), r)))
	}
	return Size{}, errors.New("not a PNG, JPEG, GIF, WebP or BMP file")
}

func webp(h []byte) (Size, error) {
	le := binary.LittleEndian
	switch string(h[12:16]) {
	case "VP8 ":
		if string(h[23:26]) != "\x9d\x01\x2a" {
			return Size{}, errors.New("a WebP without a key frame")
		}
		return Size{Format: "webp", Width: int(le.Uint16(h[26:]) & 0x3fff), Height: int(le.Uint16(h[28:]) & 0x3fff)}, nil
	case "VP8L":
		if h[20] != 0x2f {
			return Size{}, errors.New("a lossless WebP without its signature")
		}
		v := le.Uint32(h[21:])
		return Size{Format: "webp", Width: int(v&0x3fff) + 1, Height: int(v>>14&0x3fff) + 1}, nil
	case "VP8X":
		u24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
		return Size{Format: "webp", Width: u24(h[24:]) + 1, Height: u24(h[27:]) + 1}, nil
	}
	return Size{}, fmt.Errorf("a WebP with the unknown part %q", h[12:16])
}

// readJPEG goes from marker to marker up to the start of a frame.
func readJPEG(r *bufio.Reader) (Size, error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return Size{}, err
		}
		if c != 0xff {
			return Size{}, errors.New("a JPEG that is damaged before its size")
		}
		for c == 0xff {
			if c, err = r.ReadByte(); err != nil {
				return Size{}, err
			}
		}
		switch {
		case c == 0x01 || c >= 0xd0 && c <= 0xd7:
			continue
		case c == 0xd9 || c == 0xda:
			return Size{}, errors.New("a JPEG without a size before its data")
		}
		var b [7]byte
		if _, err := io.ReadFull(r, b[:2]); err != nil {
			return Size{}, err
		}
		n := int(binary.BigEndian.Uint16(b[:])) - 2
		if n < 0 {
			return Size{}, errors.New("a JPEG with a segment of no length")
		}
		// SOF0 to SOF15, but not the tables C4, C8 and CC.
		if c >= 0xc0 && c <= 0xcf && c != 0xc4 && c != 0xc8 && c != 0xcc {
			if _, err := io.ReadFull(r, b[:5]); err != nil {
				return Size{}, err
			}
			return Size{Format: "jpeg", Height: int(binary.BigEndian.Uint16(b[1:])), Width: int(binary.BigEndian.Uint16(b[3:]))}, nil
		}
		if _, err := r.Discard(n); err != nil {
			return Size{}, err
		}
	}
}

func main() {
	sdk.Serve("image_size", "Width and height of a PNG, JPEG, GIF, WebP or BMP file", Run, sdk.ReadOnly())
}
