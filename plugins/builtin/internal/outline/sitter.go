package outline

import (
	"fmt"
	"strings"
	"unsafe"

	ts "github.com/tree-sitter/go-tree-sitter"
	bash "github.com/tree-sitter/tree-sitter-bash/bindings/go"
	c "github.com/tree-sitter/tree-sitter-c/bindings/go"
	cpp "github.com/tree-sitter/tree-sitter-cpp/bindings/go"
	java "github.com/tree-sitter/tree-sitter-java/bindings/go"
	javascript "github.com/tree-sitter/tree-sitter-javascript/bindings/go"
	python "github.com/tree-sitter/tree-sitter-python/bindings/go"
	rust "github.com/tree-sitter/tree-sitter-rust/bindings/go"
	typescript "github.com/tree-sitter/tree-sitter-typescript/bindings/go"
)

// grammar is the table of a language, which is static data of the program.
func grammar(lang Language) unsafe.Pointer {
	switch lang {
	case Python:
		return python.Language()
	case JavaScript:
		return javascript.Language()
	case TypeScript:
		return typescript.LanguageTypescript()
	case TSX:
		return typescript.LanguageTSX()
	case Java:
		return java.Language()
	case C:
		return c.Language()
	case CPP:
		return cpp.Language()
	case Rust:
		return rust.Language()
	case Bash:
		return bash.Language()
	}
	return nil
}

// sitter is a tree-sitter parser for one language.
type sitter struct {
	lang   Language
	parser *ts.Parser
	rules  []*rule // by the number of the node's kind
}

func newSitter(lang Language) (*sitter, error) {
	g := grammar(lang)
	if g == nil {
		return nil, ErrLanguage
	}
	nativeMalloc()
	l := ts.NewLanguage(g)
	s := &sitter{lang: lang, parser: ts.NewParser()}
	if err := s.parser.SetLanguage(l); err != nil {
		s.parser.Close()
		return nil, fmt.Errorf("%s grammar: %w", lang, err)
	}
	// The replacement for this setter leaks an entry of a table for each file.
	s.parser.SetTimeoutMicros(uint64(maxTime.Microseconds())) //nolint:staticcheck
	s.rules = make([]*rule, l.NodeKindCount())
	table := rulesOf(lang)
	for id := range s.rules {
		if l.NodeKindIsNamed(uint16(id)) {
			s.rules[id] = table[l.NodeKindForId(uint16(id))]
		}
	}
	return s, nil
}

func (s *sitter) close() { s.parser.Close() }

func (s *sitter) parse(src []byte) (*File, error) {
	tree := s.parser.Parse(src, nil)
	if tree == nil {
		s.parser.Reset()
		return nil, ErrTooSlow
	}
	defer tree.Close()
	root := tree.RootNode()
	out := &File{Lang: s.lang, Lines: lines(src), Broken: root.HasError()}
	w := &walk{builder: builder{src: src, file: out}, s: s, cur: root.Walk()}
	defer w.cur.Close()
	w.children(root, place{from: -1})
	return out, nil
}

// rule says what a kind of node means. A node without a rule is passed over.
type rule struct {
	kind string // of the symbol; "" for a node whose children are looked at as if it were not there
	// name finds the node that names the symbol; nil: the field "name".
	name func(n *ts.Node) *ts.Node
	// body is the field at which the head ends; "" is "body".
	body string
	// inside: the body's children are symbols of their own.
	inside bool
	// whole: the head of a child begins where this node begins ("export", "template <…>").
	whole bool
	// nested is the kind when it lies in a class or the like; "": the same.
	nested string
	// needsBody: without a body it is a mere mention.
	needsBody bool
	// oneLine: the head ends with its first line.
	oneLine bool
	// topOnly: not a symbol within another one.
	topOnly bool
	// skip decides by the node. It may be nil.
	skip func(w *walk, n *ts.Node) bool
	// value: a child in this field that is a function or class makes it one.
	value string
	// as gives another kind by the node, "" for kind. It may be nil.
	as func(n *ts.Node) string
	// also: look at these fields' nodes too, beside it.
	also string
}

type place struct {
	parent string
	depth  int
	from   int  // where the head begins, -1: at the node itself
	level  int  // of recursion
	space  bool // in a namespace or module, which has functions and no methods
}

type walk struct {
	builder
	s   *sitter
	cur *ts.TreeCursor
}

func (w *walk) children(n *ts.Node, at place) bool {
	if at.level > 4*maxDepth {
		return true
	}
	at.level++
	list := n.NamedChildren(w.cur)
	for i := range list {
		if !w.node(&list[i], at) {
			return false
		}
	}
	return true
}

// node looks at one node and says whether to go on.
func (w *walk) node(n *ts.Node, at place) bool {
	if n.IsError() {
		return w.children(n, place{at.parent, at.depth, -1, at.level, at.space})
	}
	id := int(n.KindId())
	if id >= len(w.s.rules) || w.s.rules[id] == nil {
		return true
	}
	r := w.s.rules[id]
	if r.kind == "" {
		if r.whole && at.from < 0 {
			at.from = int(n.StartByte())
		} else if !r.whole {
			at.from = -1
		}
		return w.children(n, at)
	}
	if r.also != "" {
		if x := n.ChildByFieldName(r.also); x != nil && !w.node(x, place{at.parent, at.depth, -1, at.level + 1, at.space}) {
			return false
		}
	}
	if r.topOnly && at.depth > 0 || r.skip != nil && r.skip(w, n) {
		return true
	}
	field := r.body
	if field == "" {
		field = "body"
	}
	body := n.ChildByFieldName(field)
	if r.needsBody && body == nil {
		return true
	}
	var named *ts.Node
	if r.name != nil {
		named = r.name(n)
	} else {
		named = n.ChildByFieldName("name")
	}
	if named == nil {
		return true
	}
	from, to := int(n.StartByte()), int(n.EndByte())
	end := to
	if body != nil {
		end = int(body.StartByte())
	}
	start, stop := n.StartPosition(), n.EndPosition()
	if at.from >= 0 {
		from = at.from
	}
	if r.oneLine {
		end = min(end, w.firstLine(from, to))
	}
	sym := Symbol{Name: w.text(int(named.StartByte()), int(named.EndByte())), Parent: at.parent, Kind: r.kind,
		Start: int(start.Row) + 1, End: int(stop.Row) + 1, Depth: at.depth}
	if stop.Column == 0 && sym.End > sym.Start {
		sym.End--
	}
	if r.kind == "impl" { // of a type, whatever its parameters
		sym.Name, _, _ = strings.Cut(sym.Name, "<")
	}
	if at.depth > 0 && !at.space && r.nested != "" {
		sym.Kind = r.nested
	}
	if r.as != nil {
		if k := r.as(n); k != "" {
			sym.Kind = k
		}
	}
	if r.value != "" {
		v := n.ChildByFieldName(r.value)
		kind, inner := valueKind(v)
		switch {
		case kind != "":
			sym.Kind = kind
			if at.depth > 0 && !at.space && kind == "func" {
				sym.Kind = "method"
			}
			end = int(inner.StartByte())
		case at.depth > 0 && !at.space:
			return true // a plain field
		default:
			end = min(end, w.firstLine(from, to))
			sym.Kind = w.declared(n, sym.Kind)
		}
		body = inner
	}
	sym.Sig = w.sig(from, end)
	if !w.add(sym) {
		return false
	}
	inside := r.inside || r.value != "" && sym.Kind == "class"
	if inside && body != nil && at.depth < maxDepth {
		parent := sym.Name
		if at.parent != "" && !strings.Contains(sym.Name, "::") {
			parent = at.parent + "." + sym.Name
		}
		return w.children(body, place{parent, at.depth + 1, -1, at.level, r.kind == "namespace" || r.kind == "mod"})
	}
	return true
}

// valueKind tells whether the value of a variable is a function or a class, and its body.
func valueKind(v *ts.Node) (string, *ts.Node) {
	if v == nil {
		return "", nil
	}
	kind := ""
	switch v.Kind() {
	case "arrow_function", "function_expression", "function", "generator_function":
		kind = "func"
	case "class":
		kind = "class"
	default:
		return "", nil
	}
	b := v.ChildByFieldName("body")
	if b == nil {
		return "", nil
	}
	return kind, b
}

// declared is "const" or "var", as the declaration around a declarator says.
func (w *walk) declared(n *ts.Node, kind string) string {
	if p := n.Parent(); p != nil && strings.HasPrefix(string(w.src[p.StartByte():min(int(p.EndByte()), int(p.StartByte())+6)]), "const") {
		return "const"
	}
	return kind
}

// declarator follows the declarators of C to the name that is declared.
func declarator(n *ts.Node) *ts.Node {
	d := n.ChildByFieldName("declarator")
	for range 20 {
		if d == nil {
			return nil
		}
		switch d.Kind() {
		case "identifier", "field_identifier", "type_identifier", "qualified_identifier", "operator_name", "destructor_name", "operator_cast", "template_function", "primitive_type":
			return d
		}
		next := d.ChildByFieldName("declarator")
		if next == nil { // in parentheses, or a reference
			for i := range d.NamedChildCount() {
				if x := d.NamedChild(i); x != nil && (strings.HasSuffix(x.Kind(), "declarator") || strings.HasSuffix(x.Kind(), "identifier") || x.Kind() == "operator_name") {
					next = x
					break
				}
			}
		}
		d = next
	}
	return nil
}

// declaresFunction says whether a declaration of C names a function (and no pointer to one).
func declaresFunction(n *ts.Node) bool {
	d := n.ChildByFieldName("declarator")
	for range 20 {
		if d == nil {
			return false
		}
		if d.Kind() == "function_declarator" {
			in := d.ChildByFieldName("declarator")
			return in != nil && in.Kind() != "parenthesized_declarator"
		}
		next := d.ChildByFieldName("declarator")
		if next == nil && d.Kind() == "reference_declarator" {
			next = d.NamedChild(0)
		}
		d = next
	}
	return false
}

func field(name string) func(*ts.Node) *ts.Node {
	return func(n *ts.Node) *ts.Node { return n.ChildByFieldName(name) }
}

// through is the rule of a node that only holds others.
var (
	through = &rule{}
	wrapper = &rule{whole: true}
)

func rulesOf(lang Language) map[string]*rule {
	switch lang {
	case Python:
		return pythonRules()
	case JavaScript, TypeScript, TSX:
		return scriptRules()
	case Java:
		return javaRules()
	case C, CPP:
		return cRules()
	case Rust:
		return rustRules()
	case Bash:
		return bashRules()
	}
	return nil
}

func pythonRules() map[string]*rule {
	return map[string]*rule{
		"class_definition":     {kind: "class", inside: true},
		"function_definition":  {kind: "func", nested: "method"},
		"decorated_definition": through,
		"if_statement":         through, "else_clause": through, "elif_clause": through, "block": through,
		"try_statement": through, "except_clause": through, "with_statement": through,
		"expression_statement": through,
		"assignment": {kind: "var", oneLine: true, topOnly: true, body: "none", name: func(n *ts.Node) *ts.Node {
			if l := n.ChildByFieldName("left"); l != nil && l.Kind() == "identifier" {
				return l
			}
			return nil
		}},
		"type_alias_statement": {kind: "type", oneLine: true, name: field("left")},
	}
}

func scriptRules() map[string]*rule {
	class := &rule{kind: "class", inside: true}
	fn := &rule{kind: "func"}
	method := &rule{kind: "method"}
	return map[string]*rule{
		"function_declaration": fn, "generator_function_declaration": fn, "function_signature": fn,
		"class_declaration": class, "abstract_class_declaration": class,
		"method_definition": method, "method_signature": method, "abstract_method_signature": method,
		"field_definition":        {kind: "field", name: field("property"), value: "value"},
		"public_field_definition": {kind: "field", value: "value"},
		"export_statement":        wrapper, "ambient_declaration": wrapper,
		"lexical_declaration": wrapper, "variable_declaration": wrapper,
		"variable_declarator": {kind: "var", value: "value", name: func(n *ts.Node) *ts.Node {
			if l := n.ChildByFieldName("name"); l != nil && l.Kind() == "identifier" {
				return l
			}
			return nil
		}},
		"expression_statement": through,
		"assignment_expression": {kind: "func", name: field("left"), value: "right", skip: func(w *walk, n *ts.Node) bool {
			kind, _ := valueKind(n.ChildByFieldName("right"))
			return kind == ""
		}},
		"interface_declaration":  {kind: "interface", inside: true},
		"type_alias_declaration": {kind: "type", oneLine: true},
		"enum_declaration":       {kind: "enum"},
		"internal_module":        {kind: "namespace", inside: true},
		"module":                 {kind: "namespace", inside: true},
	}
}

func javaRules() map[string]*rule {
	method := &rule{kind: "method"}
	return map[string]*rule{
		"class_declaration":           {kind: "class", inside: true},
		"interface_declaration":       {kind: "interface", inside: true},
		"enum_declaration":            {kind: "enum", inside: true},
		"record_declaration":          {kind: "record", inside: true},
		"annotation_type_declaration": {kind: "interface", inside: true},
		"enum_body_declarations":      through,
		"method_declaration":          method, "constructor_declaration": method, "compact_constructor_declaration": method,
		"annotation_type_element_declaration": method,
		"field_declaration":                   {kind: "field", oneLine: true, name: javaField},
		"constant_declaration":                {kind: "const", oneLine: true, name: javaField},
	}
}

func javaField(n *ts.Node) *ts.Node {
	if d := n.ChildByFieldName("declarator"); d != nil {
		return d.ChildByFieldName("name")
	}
	return nil
}

func cRules() map[string]*rule {
	aggregate := func(kind string) *rule { return &rule{kind: kind, needsBody: true, inside: kind != "enum"} }
	return map[string]*rule{
		"function_definition": {kind: "func", nested: "method", name: declarator, also: "type"},
		"declaration": {kind: "func", nested: "method", name: declarator, also: "type", as: func(n *ts.Node) string {
			if declaresFunction(n) {
				return ""
			}
			return "var"
		}, skip: func(w *walk, n *ts.Node) bool {
			return !declaresFunction(n) && !global(w, n)
		}},
		"field_declaration": {kind: "method", name: declarator, also: "type", skip: func(w *walk, n *ts.Node) bool {
			return !declaresFunction(n)
		}},
		"struct_specifier": aggregate("struct"), "union_specifier": aggregate("union"),
		"class_specifier": aggregate("class"), "enum_specifier": aggregate("enum"),
		"type_definition":      {kind: "type", name: declarator, also: "type", oneLine: true},
		"alias_declaration":    {kind: "type", oneLine: true},
		"concept_definition":   {kind: "concept", oneLine: true},
		"namespace_definition": {kind: "namespace", inside: true},
		"preproc_function_def": {kind: "macro", body: "value"},
		"preproc_def":          {kind: "macro", body: "none", oneLine: true, skip: func(w *walk, n *ts.Node) bool { return n.ChildByFieldName("value") == nil }},
		"preproc_ifdef":        through, "preproc_if": through, "preproc_else": through, "preproc_elif": through,
		"linkage_specification": through, "declaration_list": through,
		"template_declaration": wrapper,
	}
}

// global says whether a declaration that is no function is worth showing: a variable of
// the file that has a value or is extern.
func global(w *walk, n *ts.Node) bool {
	d := n.ChildByFieldName("declarator")
	if d == nil {
		return false
	}
	text := w.src[n.StartByte():n.EndByte()]
	return d.Kind() == "init_declarator" || strings.HasPrefix(string(text[:min(len(text), 7)]), "extern ")
}

func rustRules() map[string]*rule {
	fn := &rule{kind: "func", nested: "method"}
	return map[string]*rule{
		"function_item": fn, "function_signature_item": fn,
		"struct_item": {kind: "struct"}, "enum_item": {kind: "enum"}, "union_item": {kind: "union"},
		"trait_item":       {kind: "trait", inside: true},
		"impl_item":        {kind: "impl", inside: true, name: field("type")},
		"mod_item":         {kind: "mod", inside: true, needsBody: true},
		"const_item":       {kind: "const", oneLine: true},
		"static_item":      {kind: "static", oneLine: true},
		"type_item":        {kind: "type", oneLine: true},
		"macro_definition": {kind: "macro", oneLine: true},
		"foreign_mod_item": through, "declaration_list": through,
	}
}

func bashRules() map[string]*rule {
	return map[string]*rule{
		"function_definition": {kind: "func"},
		"variable_assignment": {kind: "var", oneLine: true, topOnly: true},
		"declaration_command": through, "if_statement": through, "else_clause": through, "list": through,
	}
}
