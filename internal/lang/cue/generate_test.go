package cue_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
)

// A generator writes programs and objects at random, mostly well typed ones: what is
// wrong in every second place tells little of the rest.
type generator struct {
	data   []byte
	random *rand.Rand

	imports map[string]bool
	// names are what expressions may mention, by kind; a scope ends where it was made.
	names []named
	depth int
	next  int
}

type named struct {
	name string
	kind kind
}

// A kind is what an expression is meant to be.
type kind int

const (
	text kind = iota
	whole
	truth
	list
	record
	scalarKind
	kinds
)

// generatorOf decides by data, and when that is used up by chance that depends on it.
func generatorOf(data []byte) *generator {
	seed := fnv.New64a()
	seed.Write(data)
	return &generator{data: data, random: rand.New(rand.NewPCG(seed.Sum64(), 3)), imports: map[string]bool{}}
}

func (g *generator) n(n int) int {
	if len(g.data) > 0 {
		b := int(g.data[0])
		g.data = g.data[1:]
		return b % n
	}
	return g.random.IntN(n)
}

func (g *generator) pick(options ...string) string { return options[g.n(len(options))] }

// chance reports true once in n times.
func (g *generator) chance(n int) bool { return g.n(n) == n-1 }

func (g *generator) name(prefix string) string {
	g.next++
	return fmt.Sprint(prefix, g.next)
}

// program writes a program of a form that has object, and oldObject if it validates.
func (g *generator) program(validate bool) string {
	declarations := []string{"object: _\n"}
	if validate {
		declarations = append(declarations, "oldObject: _\n")
	}
	for range g.n(4) {
		declarations = append(declarations, g.helper())
	}
	output := g.patches
	if validate {
		output = g.validation
	}
	switch g.n(8) {
	case 0:
		condition := g.expr(truth)
		declarations = append(declarations,
			fmt.Sprintf("if %s {\n%s}\n", condition, output()), fmt.Sprintf("if !(%s) {\n%s}\n", condition, output()))
	case 1:
		declarations = append(declarations, fmt.Sprintf("if %s {\n%s}\n", g.expr(truth), output()))
	default:
		declarations = append(declarations, output())
	}
	if g.chance(3) {
		g.random.Shuffle(len(declarations), func(i, j int) {
			declarations[i], declarations[j] = declarations[j], declarations[i]
		})
	}
	var imports strings.Builder
	for _, path := range []string{"list", "math", "regexp", "strconv", "strings"} {
		if g.imports[path] {
			fmt.Fprintf(&imports, "import %q\n", path)
		}
	}
	return imports.String() + strings.Join(declarations, "")
}

// helper writes a declaration of a name.
func (g *generator) helper() string {
	k := kind(g.n(int(kinds)))
	name := g.name(g.pick("h", "h", "_h"))
	var s string
	if g.chance(10) {
		// It may mention itself.
		g.names = append(g.names, named{name, k})
	}
	switch g.n(8) {
	case 0:
		s = fmt.Sprintf("let %s = %s\n", name, g.expr(k))
		// A let clause that nothing mentions is an error.
		s += fmt.Sprintf("%s: %s\n", g.name("used"), name)
	case 1:
		condition := g.expr(truth)
		s = fmt.Sprintf("if %s {\n%s: %s\n}\nif !(%s) {\n%s: %s\n}\n", condition, name, g.expr(k), condition, name, g.expr(k))
		return s
	case 2:
		s = fmt.Sprintf("%s: %s\nif %s {\n%s: %s\n}\n", name, g.expr(k), g.expr(truth), name, g.expr(k))
	case 3:
		s = fmt.Sprintf("%s: %s\n", name, g.alternatives(k))
	case 4:
		s = fmt.Sprintf("%s: %s\n", name, g.path(k))
	default:
		s = fmt.Sprintf("%s: %s\n", name, g.expr(k))
	}
	g.names = append(g.names, named{name, k})
	return s
}

func (g *generator) patches() string {
	var b strings.Builder
	b.WriteString("patches: [\n")
	for range 1 + g.n(3) {
		switch g.n(5) {
		case 0:
			fmt.Fprintf(&b, "if %s {\n%s\n},\n", g.expr(truth), g.pick(g.patch(), "{"+g.patch()+"}"))
		case 1:
			b.WriteString(g.loop(func() string { return g.patch() }) + ",\n")
		case 2:
			fmt.Fprintf(&b, "if %s if %s {%s},\n", g.expr(truth), g.expr(truth), g.patch())
		default:
			fmt.Fprintf(&b, "{%s},\n", g.patch())
		}
	}
	b.WriteString("]\n")
	if g.chance(6) {
		return strings.Replace(b.String(), "patches: [", g.pick("patches: [] + [", "import_patches: ["), 1)
	}
	return b.String()
}

// patch writes the fields of a patch.
func (g *generator) patch() string {
	var lets string
	mark := len(g.names)
	if g.chance(5) {
		k := kind(g.n(int(kinds)))
		name := g.name("l")
		lets = fmt.Sprintf("let %s = %s\nextra: %s\n", name, g.expr(k), name)
		g.names = append(g.names, named{name, k})
	}
	s := fmt.Sprintf("op: %s\npath: %s\n", g.pick(`"add"`, `"add"`, `"replace"`, `*"add" | string`), g.pick(`"/a"`, `"/a/b"`, g.expr(text)))
	switch g.n(6) {
	case 0:
		s += fmt.Sprintf("if %s {\nvalue: %s\n}\n", g.expr(truth), g.expr(kind(g.n(int(kinds)))))
	case 1:
		s += fmt.Sprintf("value: %s\n", g.alternatives(kind(g.n(int(kinds)))))
	default:
		s += fmt.Sprintf("value: %s\n", g.expr(kind(g.n(int(kinds)))))
	}
	g.names = g.names[:mark]
	return lets + s
}

func (g *generator) validation() string {
	var b strings.Builder
	b.WriteString("validate: {\n")
	body := func() string {
		s := fmt.Sprintf("valid: %s\n", g.pick("false", "false", "true", g.expr(truth), g.alternatives(truth)))
		if !g.chance(4) {
			s += fmt.Sprintf("reason: %s\n", g.expr(text))
		}
		return s
	}
	switch g.n(6) {
	case 0:
		b.WriteString(body())
	case 1:
		fmt.Fprintf(&b, "if %s {\nif %s {\n%s}\n}\n", g.expr(truth), g.expr(truth), body())
	case 2:
		fmt.Fprintf(&b, "if %s {\n%s}\nif %s {\n%s}\n", g.expr(truth), body(), g.expr(truth), body())
	case 3:
		fmt.Fprintf(&b, "for %s in %s if %s {\nvalid: false\n}\n", g.name("v"), g.expr(list), g.expr(truth))
	case 4:
		name := g.name("n")
		fmt.Fprintf(&b, "%s: %s\nvalid: %s\nreason: %s\n", name, g.expr(whole), g.pick(name+" < 3", name+" == 2"), g.pick(`"n is \(`+name+`)"`, g.expr(text)))
	default:
		fmt.Fprintf(&b, "if %s {\n%s}\n", g.expr(truth), body())
	}
	b.WriteString("}\n")
	return b.String()
}

// expr writes an expression, from time to time of another kind than it should be.
func (g *generator) expr(k kind) string {
	if g.chance(100) {
		k = kind(g.n(int(kinds)))
	}
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 4 || g.chance(3) {
		return g.leaf(k)
	}
	switch k {
	case text:
		return g.text()
	case whole:
		return g.whole()
	case truth:
		return g.truth()
	case list:
		return g.list()
	case record:
		return g.record()
	}
	return g.leaf(k)
}

func (g *generator) call(path, name string, args ...string) string {
	g.imports[path] = true
	return fmt.Sprintf("%s.%s(%s)", path, name, strings.Join(args, ", "))
}

func (g *generator) text() string {
	switch g.n(18) {
	case 0, 1:
		return fmt.Sprintf(`"%s\(%s)%s"`, g.pick("", "a", `\"`, "é"), g.expr(kind(g.n(3))), g.pick("", "z", `\n`))
	case 2:
		return fmt.Sprintf(`"\(%s)-\(%s)"`, g.expr(text), g.expr(whole))
	case 3:
		return fmt.Sprintf("%s + %s", g.expr(text), g.expr(text))
	case 4:
		return g.call("strings", g.pick("ToLower", "ToUpper", "TrimSpace"), g.expr(text))
	case 5:
		return g.call("strings", g.pick("TrimPrefix", "TrimSuffix", "Trim", "TrimLeft", "TrimRight"), g.expr(text), g.pick(`"a"`, `"corp/"`, `""`, g.expr(text)))
	case 6:
		members := g.pick(g.expr(list), fmt.Sprintf("[for k, _ in %s {\"\\(k)\"}]", g.expr(record)))
		return g.call("strings", "Join", members, g.pick(`","`, `""`))
	case 7:
		return g.call("strings", "Replace", g.expr(text), g.pick(`"a"`, `""`, `":"`), g.expr(text), g.pick("-1", "1", "0", g.expr(whole)))
	case 8:
		return g.call("strconv", "FormatInt", g.expr(whole), g.pick("10", "2", "36", "16"))
	case 9:
		return "(" + g.alternatives(text) + ")"
	case 10:
		return fmt.Sprintf("[if %s {%s}, %s][0]", g.expr(truth), g.expr(text), g.expr(text))
	case 11:
		return fmt.Sprintf("{a: %s, b: %s}.%s", g.expr(text), g.expr(text), g.pick("a", "b", "c"))
	case 12:
		return g.call("regexp", g.pick("ReplaceAll", "ReplaceAllLiteral"), g.pattern(), g.expr(text), g.pick(`"x"`, `"$0-"`, `"${1}"`, g.expr(text)))
	case 13:
		return g.call("regexp", "Find", g.pattern(), g.expr(text))
	case 14:
		return fmt.Sprintf("%s[%s]", g.call("strings", "Split", g.expr(text), g.pick(`":"`, `"-"`, `""`)), g.pick("0", "0", "1", g.expr(whole)))
	case 15:
		return fmt.Sprintf("{a: \"x\", app: \"y\", \"\\(%s)\": \"z\"}[%s]", g.pick(`"q"`, `"r"`), g.expr(text))
	case 16:
		return g.call("strconv", "FormatBool", g.expr(truth))
	}
	return g.leaf(text)
}

func (g *generator) pattern() string {
	if g.chance(12) {
		return g.pick(`"("`, g.leaf(text))
	}
	return g.pick(`"^a"`, `"[a-c]+"`, `"(a)(b)?"`, `"corp/"`, `":[0-9]+$"`, `"^$"`, `"."`, `"p|(r)"`)
}

func (g *generator) whole() string {
	switch g.n(14) {
	case 0, 1:
		return fmt.Sprintf("%s %s %s", g.operand(whole), g.pick("+", "-", "*"), g.operand(whole))
	case 2:
		return fmt.Sprintf("len(%s)", g.expr(kind(g.n(int(kinds)))))
	case 3:
		return fmt.Sprintf("%s(%s, %s)", g.pick("div", "mod", "quo", "rem"), g.expr(whole), g.expr(whole))
	case 4:
		return g.call("strconv", "Atoi", g.pick(`"12"`, `"-3"`, `"+4"`, `"x"`, `"007"`, g.expr(text)))
	case 5:
		return g.call("list", g.pick("Max", "Min", "Sum"), g.pick("[1, 2, 3]", fmt.Sprintf("[%s, %s]", g.expr(whole), g.expr(whole)), g.expr(list)))
	case 6:
		return g.call("math", g.pick("Round", "Floor", "Ceil", "Trunc"), g.expr(whole))
	case 7:
		return "(" + g.alternatives(whole) + ")"
	case 8:
		return g.call("strings", g.pick("Index", "Count", "LastIndex"), g.expr(text), g.expr(text))
	case 9:
		return "-" + g.operand(whole)
	case 10:
		return fmt.Sprintf("[%s, 5][%s]", g.expr(whole), g.pick("0", "1", g.expr(whole)))
	case 11:
		return fmt.Sprintf("%s %s %s", g.operand(whole), g.pick("div", "mod", "/"), g.operand(whole))
	}
	return g.leaf(whole)
}

func (g *generator) operand(k kind) string {
	s := g.expr(k)
	if strings.ContainsAny(s, " |") {
		return "(" + s + ")"
	}
	return s
}

func (g *generator) truth() string {
	switch g.n(18) {
	case 0, 1, 2:
		return fmt.Sprintf("%s %s _|_", g.mention(), g.pick("!=", "=="))
	case 3, 4:
		k := kind(g.n(3))
		return fmt.Sprintf("%s %s %s", g.operand(k), g.pick("==", "!="), g.operand(k))
	case 5:
		k := kind(g.n(2))
		return fmt.Sprintf("%s %s %s", g.operand(k), g.pick("<", "<=", ">", ">="), g.operand(k))
	case 6, 7:
		return fmt.Sprintf("%s %s %s", g.operand(truth), g.pick("&&", "||"), g.operand(truth))
	case 8:
		return "!" + g.operand(truth)
	case 9:
		return fmt.Sprintf("%s %s %s", g.operand(text), g.pick("=~", "!~"), g.pattern())
	case 10:
		return g.call("strings", g.pick("HasPrefix", "HasSuffix", "Contains", "ContainsAny"), g.expr(text), g.expr(text))
	case 11:
		return g.call("list", "Contains", g.expr(list), g.expr(kind(g.n(3))))
	case 12:
		return g.call("regexp", "Match", g.pattern(), g.expr(text))
	case 13:
		return "(" + g.alternatives(truth) + ")"
	case 14:
		return fmt.Sprintf("%s %s null", g.anyPath(), g.pick("==", "!="))
	case 15:
		return fmt.Sprintf("%s %s %s", g.operand(whole), g.pick("<", ">=", "=="), g.pick("1.5", "2.0", "0.1", "1e3", "2K"))
	}
	return g.leaf(truth)
}

// loop writes a comprehension around a body that may mention its variables.
func (g *generator) loop(body func() string) string {
	mark := len(g.names)
	var b strings.Builder
	source := g.pick("object.spec.containers", "object.metadata.labels", "object.metadata.finalizers", g.expr(list), g.expr(record), "[for k in [3, 1, 2] {k}]")
	v := g.name("v")
	kindOf := kind(g.n(int(kinds)))
	switch source {
	case "object.spec.containers":
		kindOf = record
	case "object.metadata.labels", "object.metadata.finalizers":
		kindOf = text
	}
	if g.chance(2) {
		k := g.name("k")
		fmt.Fprintf(&b, "for %s, %s in %s ", k, v, source)
		g.names = append(g.names, named{k, g.n2(text, whole)})
	} else {
		fmt.Fprintf(&b, "for %s in %s ", v, source)
	}
	g.names = append(g.names, named{v, kindOf})
	if g.chance(3) {
		fmt.Fprintf(&b, "if %s ", g.expr(truth))
	}
	if g.chance(5) {
		k := kind(g.n(int(kinds)))
		name := g.name("l")
		fmt.Fprintf(&b, "let %s = %s if %s ", name, g.expr(k), g.pick(name+" != _|_", g.expr(truth)))
		g.names = append(g.names, named{name, k})
	}
	fmt.Fprintf(&b, "{%s}", body())
	g.names = g.names[:mark]
	return b.String()
}

func (g *generator) n2(a, b kind) kind {
	if g.chance(2) {
		return a
	}
	return b
}

func (g *generator) list() string {
	switch g.n(12) {
	case 0, 1:
		var members []string
		k := kind(g.n(int(kinds)))
		for range g.n(4) {
			members = append(members, g.expr(k))
		}
		return "[" + strings.Join(members, ", ") + "]"
	case 2, 3:
		k := kind(g.n(int(kinds)))
		return "[" + g.loop(func() string { return g.expr(k) }) + "]"
	case 4:
		return fmt.Sprintf("[if %s {%s}, %s]", g.expr(truth), g.expr(text), g.expr(text))
	case 5:
		return g.call("list", "Concat", fmt.Sprintf("[%s, %s]", g.expr(list), g.expr(list)))
	case 6:
		return fmt.Sprintf("%s + %s", g.operand(list), g.operand(list))
	case 7:
		return g.call("strings", g.pick("Split"), g.expr(text), g.pick(`","`, `""`, `"a"`))
	case 8:
		return g.call("list", "FlattenN", g.expr(list), g.pick("1", "-1", "0"))
	case 9:
		return g.call("list", "Range", g.pick("0", "1", g.expr(whole)), g.pick("3", "len("+g.expr(list)+")"), g.pick("1", "2"))
	case 10:
		return g.call("strings", "Fields", g.expr(text))
	}
	return g.leaf(list)
}

func (g *generator) record() string {
	switch g.n(8) {
	case 0:
		return "{" + g.loop(func() string { return fmt.Sprintf("%s: %s", g.label(), g.expr(kind(g.n(3)))) }) + "}"
	case 1:
		a := g.name("f")
		k := kind(g.n(3))
		first := fmt.Sprintf("%s: %s", a, g.expr(k))
		g.names = append(g.names, named{a, k})
		second := fmt.Sprintf("b: %s", g.expr(k))
		g.names = g.names[:len(g.names)-1]
		return fmt.Sprintf("{%s, %s}", first, second)
	case 2:
		return fmt.Sprintf("{if %s {%s: %s}, b: %s}", g.expr(truth), g.pick("a", "b"), g.expr(text), g.expr(text))
	case 3:
		return "{" + g.expr(kind(g.n(int(kinds)))) + "}"
	case 4:
		return fmt.Sprintf("(%s)", g.alternatives(record))
	case 5:
		return fmt.Sprintf("{%s: %s}", g.label(), g.expr(kind(g.n(int(kinds)))))
	}
	return fmt.Sprintf("{a: %s, b: {c: %s}}", g.expr(kind(g.n(int(kinds)))), g.expr(kind(g.n(int(kinds)))))
}

func (g *generator) label() string {
	return g.pick("a", `"b-c"`, fmt.Sprintf(`"\(%s)"`, g.leaf(text)), fmt.Sprintf("(%s)", g.leaf(text)))
}

// alternatives writes a disjunction.
func (g *generator) alternatives(k kind) string {
	switch g.n(8) {
	case 0:
		return fmt.Sprintf("%s | %s", g.operand(k), g.operand(k))
	case 1:
		return fmt.Sprintf("%s | *%s", g.operand(k), g.operand(k))
	case 2:
		return fmt.Sprintf("*%s | %s | %s", g.operand(k), g.operand(k), g.operand(k))
	case 3:
		return fmt.Sprintf("*%s | %s", g.operand(k), g.pick("string", "int", "bool"))
	}
	return fmt.Sprintf("*%s | %s", g.pick(g.path(k), g.path(k), g.operand(k)), g.pick(g.literal(k), g.operand(k)))
}

func (g *generator) leaf(k kind) string {
	var fitting []string
	for _, n := range g.names {
		if n.kind == k {
			fitting = append(fitting, n.name)
		}
	}
	switch {
	case len(fitting) > 0 && g.n(3) > 0:
		return g.pick(fitting...)
	case g.chance(2):
		return g.literal(k)
	}
	return g.path(k)
}

func (g *generator) literal(k kind) string {
	switch k {
	case text:
		return g.pick(`"a"`, `"app"`, `""`, `"corp/x:1"`, `"a b"`, `"team"`, `"7"`)
	case whole:
		return g.pick("0", "1", "2", "3", "7", "-1", "1000", g.pick("9223372036854775807", "0x10", "2Ki", "9223372036854775808"))
	case truth:
		return g.pick("true", "false")
	case list:
		return g.pick("[]", `["a", "b"]`, "[1, 2]", "[1.5, 2]", "[null]", "[[1], [2]]", `[{name: "a"}]`)
	case record:
		return g.pick("{}", `{a: "b"}`, `{name: "n", image: "i"}`)
	}
	return g.pick("null", "1.5", "2.0", `"s"`, "3", "true")
}

// path writes a part of the input, or of a name, that may well be of this kind.
func (g *generator) path(k kind) string {
	var records []string
	for _, n := range g.names {
		if n.kind == record {
			records = append(records, n.name)
		}
	}
	if len(records) > 0 && g.chance(5) {
		name := g.pick(records...)
		switch k {
		case text:
			return name + g.pick(".name", ".image", `["name"]`, ".missing")
		case list:
			return name + g.pick(".ports", ".args", ".b")
		case record:
			return name + g.pick(".resources", ".resources.limits", "")
		}
		return name + g.pick(".a", ".b", ".missing", ".ports[0].containerPort")
	}
	root := g.pick("object", "object", "object", "object", "object", "object", "oldObject")
	if root == "oldObject" && !slices.ContainsFunc(g.names, func(n named) bool { return n.name == root }) {
		root = "object"
	}
	switch k {
	case text:
		return root + g.pick(".kind", ".metadata.name", ".metadata.labels.team", `.metadata.labels["team"]`, `.metadata.annotations["a/b"]`,
			".spec.containers[0].image", ".spec.containers[1].name", ".metadata.finalizers[0]", g.pick(".missing", ".metadata.missing", ".kind"), `.metadata.annotations.wait`, ".metadata.name", ".metadata.namespace")
	case whole:
		return root + g.pick(".spec.replicas", ".spec.replicas", ".spec.priority", ".spec.containers[0].ports[0].containerPort", g.pick(".spec.missing", ".spec.replicas"))
	case truth:
		return root + g.pick(".spec.paused", ".spec.hostNetwork", ".spec.paused", ".spec.missing")
	case list:
		return root + g.pick(".spec.containers", ".metadata.finalizers", ".spec.containers[0].ports", ".spec.containers", g.pick(".spec.missing", ".metadata.finalizers"))
	case record:
		return root + g.pick(".metadata", ".metadata.labels", ".spec", ".spec.containers[0]", ".metadata.annotations", g.pick(".missing", ".spec"))
	}
	return g.anyPath()
}

// mention writes a name or path.
func (g *generator) mention() string {
	if len(g.names) > 0 && g.chance(3) {
		return g.names[g.n(len(g.names))].name
	}
	return g.anyPath()
}

func (g *generator) anyPath() string { return g.path(kind(g.n(int(scalarKind)))) }

// object returns an object of the samples with some values changed.
func (g *generator) object(inputs []sample) map[string]any {
	object := inputs[g.n(len(inputs))].Object
	if !g.chance(4) {
		object = map[string]any{
			"apiVersion": "v1", "kind": g.pick("Pod", "Deployment"),
			"metadata": map[string]any{
				"name": g.pick("app", "a", "é"), "namespace": "shop", "finalizers": []any{"a", "b"},
				"labels":      map[string]any{"team": g.pick("red", "", "a"), "app": "x"},
				"annotations": map[string]any{"a/b": "c", "wait": "5"},
			},
			"spec": map[string]any{
				"replicas": int64(g.n(4)), "priority": int64(3), "paused": g.chance(2), "hostNetwork": true,
				"containers": []any{
					map[string]any{"name": "app", "image": "corp/x:1", "ports": []any{map[string]any{"containerPort": int64(80)}},
						"resources": map[string]any{"limits": map[string]any{"cpu": "1", "memory": "2Gi"}}},
					map[string]any{"name": "side", "image": "y", "ports": []any{}, "resources": map[string]any{}},
				},
			},
		}
	}
	for range g.n(3) {
		changed, ok := change(g.random, object).(map[string]any)
		if !ok {
			break
		}
		object = changed
	}
	return object
}
