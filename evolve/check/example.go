package check

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// example are the arguments of the first use of the tool's argument type in its tests that
// is made of constants only: an example that ran, once the tests have passed. Nil when
// there is none.
func (c *checker) example() json.RawMessage {
	argType := c.argType()
	if argType == "" {
		return nil
	}
	fields := c.fields(argType)
	if fields == nil {
		return nil
	}
	for _, f := range c.test {
		var found json.RawMessage
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || found != nil {
				return found == nil
			}
			if id, ok := lit.Type.(*ast.Ident); ok && id.Name == argType {
				found = c.literal(lit, fields)
			}
			return true
		})
		if found != nil {
			return found
		}
	}
	return nil
}

// argType is the name of the argument struct: of the second parameter of the function
// that sdk.Serve or sdk.New is given.
func (c *checker) argType() string {
	run := ""
	c.sdkCalls(func(fn string, call *ast.CallExpr) {
		if fn != "Serve" && fn != "New" || len(call.Args) < 3 {
			return
		}
		if id, ok := call.Args[2].(*ast.Ident); ok {
			run = id.Name
		}
	})
	for _, f := range c.code {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != run || fn.Recv != nil {
				continue
			}
			var types []ast.Expr
			for _, p := range fn.Type.Params.List {
				for range max(1, len(p.Names)) {
					types = append(types, p.Type)
				}
			}
			if len(types) == 2 {
				if id, ok := types[1].(*ast.Ident); ok {
					return id.Name
				}
			}
		}
	}
	return ""
}

// fields maps the field names of a struct type to their JSON names.
func (c *checker) fields(typ string) map[string]string {
	for _, f := range c.code {
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, sp := range g.Specs {
				ts := sp.(*ast.TypeSpec)
				st, ok := ts.Type.(*ast.StructType)
				if !ok || ts.Name.Name != typ {
					continue
				}
				out := map[string]string{}
				for _, fl := range st.Fields.List {
					tag := ""
					if fl.Tag != nil {
						if s, err := strconv.Unquote(fl.Tag.Value); err == nil {
							tag, _, _ = strings.Cut(reflect.StructTag(s).Get("json"), ",")
						}
					}
					for _, n := range fl.Names {
						out[n.Name] = n.Name
						if tag != "" {
							out[n.Name] = tag
						}
					}
				}
				return out
			}
		}
	}
	return nil
}

func (c *checker) literal(lit *ast.CompositeLit, fields map[string]string) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return nil
		}
		id, ok := kv.Key.(*ast.Ident)
		if !ok || fields[id.Name] == "" {
			return nil
		}
		v := c.constant(kv.Value)
		if v == nil {
			return nil
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(jsonText(fields[id.Name]))
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	if !json.Valid(b.Bytes()) || b.Len() > 2000 || len(lit.Elts) == 0 {
		return nil
	}
	return b.Bytes()
}

func jsonText(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return []byte(`""`)
	}
	return bytes.TrimSpace(b.Bytes())
}

// constant is the JSON of an expression that is a constant to the eye, nil for others.
func (c *checker) constant(e ast.Expr) []byte {
	if s, ok := c.text(e); ok {
		return jsonText(s)
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.INT || e.Kind == token.FLOAT {
			if json.Valid([]byte(e.Value)) {
				return []byte(e.Value)
			}
			if n, err := strconv.ParseInt(e.Value, 0, 64); err == nil {
				return strconv.AppendInt(nil, n, 10)
			}
		}
	case *ast.UnaryExpr:
		if v := c.constant(e.X); v != nil && e.Op == token.SUB {
			return append([]byte{'-'}, v...)
		}
	case *ast.Ident:
		if e.Name == "true" || e.Name == "false" {
			return []byte(e.Name)
		}
	case *ast.CompositeLit:
		if _, ok := e.Type.(*ast.ArrayType); !ok {
			return nil
		}
		out := []byte{'['}
		for i, el := range e.Elts {
			v := c.constant(el)
			if v == nil {
				return nil
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, v...)
		}
		return append(out, ']')
	}
	return nil
}
