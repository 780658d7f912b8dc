package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode"
)

// The limits of one answer. A server that goes beyond them is broken or hostile.
const (
	maxLine   = 16 << 20 // bytes of one line
	maxAnswer = 64 << 20 // bytes of one answer
)

var (
	errTooLarge = errors.New("the answer is larger than 64 MB")
	errNotAPI   = errors.New("the answer is a web page, not an API answer")
	errBroken   = errors.New("the stream is broken: a piece of it is not valid JSON")
)

// sse reads server-sent events as model servers really send them. go-openai's own reader
// is not used because it ends a stream after a number of lines without data, keeps every
// such line in memory and may take them for an error text, drops a last line without line
// end, and cannot tell a finished stream from one that was cut: both are io.EOF there.
//
// Each data line is an event of its own, whether an empty line follows or not; one whose
// JSON is unfinished is joined with the data lines that follow it. Answers that are plain
// JSON instead of a stream are read too, one or more values in a row.
type sse struct {
	r     *bufio.Reader
	line  []byte // holds lines longer than the reader's buffer
	event string
	pend  []byte
	total int
	json  bool
	dec   *json.Decoder
	begun bool
}

func newSSE(r io.Reader) *sse {
	return &sse{r: bufio.NewReaderSize(io.LimitReader(r, maxAnswer+1), 32<<10)}
}

// next returns the next JSON object and whether it came under "event: error". done is
// true after [DONE]; io.EOF says that the body ended without it. The bytes are valid
// until the next call.
func (s *sse) next() (data []byte, isErr, done bool, err error) {
	if !s.begun {
		s.begun = true
		if err := s.open(); err != nil {
			return nil, false, false, err
		}
	}
	if s.json {
		var raw json.RawMessage
		switch err := s.dec.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return nil, false, false, io.EOF
		case err != nil && s.dec.InputOffset() >= maxAnswer:
			return nil, false, false, errTooLarge
		case errors.As(err, new(*json.SyntaxError)):
			return nil, false, false, errBroken
		case err != nil:
			return nil, false, false, err
		}
		return raw, false, false, nil
	}
	for {
		line, err := s.readLine()
		if err != nil && len(line) == 0 {
			if err == io.EOF && len(s.pend) > 0 {
				return nil, false, false, io.ErrUnexpectedEOF
			}
			return nil, false, false, err
		}
		if len(line) == 0 { // the end of an event
			s.event = ""
			if len(s.pend) > 0 {
				return nil, false, false, errBroken
			}
			continue
		}
		if v, ok := bytes.CutPrefix(line, []byte("event:")); ok {
			s.event = string(bytes.TrimSpace(v))
			continue
		}
		v, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue // a comment, an id, a retry time
		}
		v = bytes.TrimSpace(v)
		if string(v) == "[DONE]" {
			return nil, false, true, nil
		}
		if len(s.pend) > 0 {
			if len(s.pend)+len(v) > maxLine {
				return nil, false, false, errTooLarge
			}
			s.pend = append(append(s.pend, '\n'), v...)
			v = s.pend
		} else if len(v) == 0 || v[0] != '{' {
			continue // keep-alive texts of some servers
		}
		if !json.Valid(v) {
			if err != nil { // the connection was cut inside this line
				return nil, false, false, io.ErrUnexpectedEOF
			}
			if len(s.pend) == 0 {
				s.pend = append(s.pend, v...)
			}
			continue
		}
		s.pend = s.pend[:0]
		return v, s.event == "error", false, nil
	}
}

// open looks at the first character of the body.
func (s *sse) open() error {
	for {
		r, n, err := s.r.ReadRune()
		if err != nil {
			return err
		}
		s.total += n
		if r == '\uFEFF' || unicode.IsSpace(r) {
			continue
		}
		if err := s.r.UnreadRune(); err != nil {
			return err
		}
		switch r {
		case '<':
			return errNotAPI
		case '{':
			s.json = true
			s.dec = json.NewDecoder(s.r)
		}
		return nil
	}
}

// readLine returns the next line without its end. At the end of the body it returns what
// is left together with the error.
func (s *sse) readLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		p, err := s.r.ReadSlice('\n')
		s.total += len(p)
		if s.total > maxAnswer || len(s.line)+len(p) > maxLine {
			return nil, errTooLarge
		}
		if err == nil && len(s.line) == 0 {
			return trimEOL(p), nil
		}
		s.line = append(s.line, p...)
		if err == bufio.ErrBufferFull {
			continue
		}
		return trimEOL(s.line), err
	}
}

func trimEOL(p []byte) []byte {
	p = bytes.TrimSuffix(p, []byte("\n"))
	return bytes.TrimSuffix(p, []byte("\r"))
}
