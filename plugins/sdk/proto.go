package sdk

import (
	"encoding/binary"
	"encoding/json"
	"errors"
)

// The few messages of plugins/wire/v1 in protocol buffer encoding, by hand: field numbers
// are those of wire.proto, whose generated code the tests compare with.

var errMessage = errors.New("malformed message")

// fields calls f for each field of a message; val is the payload of a length-delimited
// field, num the value of a varint field. Unknown fields are passed too.
func fields(msg []byte, f func(field uint64, num uint64, val []byte)) error {
	for len(msg) > 0 {
		tag, n := binary.Uvarint(msg)
		if n <= 0 || tag>>3 == 0 {
			return errMessage
		}
		msg = msg[n:]
		switch tag & 7 {
		case 0:
			v, n := binary.Uvarint(msg)
			if n <= 0 {
				return errMessage
			}
			msg = msg[n:]
			f(tag>>3, v, nil)
		case 1, 5:
			size := 8
			if tag&7 == 5 {
				size = 4
			}
			if len(msg) < size {
				return errMessage
			}
			msg = msg[size:]
		case 2:
			l, n := binary.Uvarint(msg)
			if n <= 0 || l > uint64(len(msg)-n) {
				return errMessage
			}
			f(tag>>3, 0, msg[n:n+int(l)])
			msg = msg[n+int(l):]
		default:
			return errMessage
		}
	}
	return nil
}

type callRequest struct {
	tool     string
	args     []byte
	info     CallInfo
	deadline int64 // ms since 1970
	serial   uint64
}

func decodeCallRequest(msg []byte) (callRequest, error) {
	var r callRequest
	err := fields(msg, func(field, num uint64, val []byte) {
		switch field {
		case 1:
			r.tool = string(val)
		case 2:
			r.args = val
		case 3:
			r.info.ID = string(val)
		case 4:
			r.info.Key = string(val)
		case 5:
			r.deadline = int64(num)
		case 6:
			r.info.Project = string(val)
		case 7:
			r.info.AddDirs = append(r.info.AddDirs, string(val))
		case 8:
			if len(val) > 0 {
				r.info.Context = json.RawMessage(val)
			}
		case 9:
			r.serial = num
		}
	})
	return r, err
}

func appendTag(b []byte, field, wire uint64) []byte {
	return binary.AppendUvarint(b, field<<3|wire)
}

func appendBytes[T string | []byte](b []byte, field uint64, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = appendTag(b, field, 2)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

func appendUint(b []byte, field, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(appendTag(b, field, 0), v)
}

func appendBool(b []byte, field uint64, v bool) []byte {
	if !v {
		return b
	}
	return appendUint(b, field, 1)
}

func encodeDescription(i Info) []byte {
	var b []byte
	b = appendBytes(b, 1, i.Name)
	b = appendBytes(b, 2, i.Description)
	b = appendBytes(b, 3, []byte(i.Schema))
	b = appendBool(b, 4, i.ReadOnly)
	b = appendBool(b, 5, i.Idempotent)
	b = appendBool(b, 6, i.Destructive)
	if p := i.Permissions; p != nil {
		var m []byte
		for n, list := range [][]string{p.Read, p.Write, p.Net, p.Exec, p.Env} {
			for _, s := range list {
				m = appendTag(m, uint64(n+1), 2)
				m = binary.AppendUvarint(m, uint64(len(s)))
				m = append(m, s...)
			}
		}
		b = appendTag(b, 7, 2)
		b = binary.AppendUvarint(b, uint64(len(m)))
		b = append(b, m...)
	}
	return appendBytes(b, 8, i.Version)
}

func encodeDescribeReply(tools []Tool) []byte {
	b := appendUint(nil, 1, protocolVersion)
	for _, t := range tools {
		b = appendBytes(b, 2, encodeDescription(t.Info()))
	}
	return b
}

// encodeResultEvent is the CallEvent that ends a call.
func encodeResultEvent(r Result) []byte {
	var m []byte
	m = appendBytes(m, 1, r.Text)
	if s, ok := r.Structured.(json.RawMessage); ok {
		m = appendBytes(m, 2, []byte(s))
	}
	for _, img := range r.Images {
		var i []byte
		i = appendBytes(i, 1, img.MIME)
		i = appendBytes(i, 2, img.Data)
		m = appendTag(m, 3, 2)
		m = binary.AppendUvarint(m, uint64(len(i)))
		m = append(m, i...)
	}
	m = appendBool(m, 4, r.IsError)
	if s, ok := r.Meta.(json.RawMessage); ok {
		m = appendBytes(m, 5, []byte(s))
	}
	m = appendBool(m, 6, r.panicked)

	b := make([]byte, 0, len(m)+12)
	b = appendTag(b, 3, 2)
	b = binary.AppendUvarint(b, uint64(len(m)))
	return append(b, m...)
}
