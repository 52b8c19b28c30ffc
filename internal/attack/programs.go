package attack

import (
	"fmt"
	"slices"
	"strings"
)

// A Program is CUE that takes too long or too much memory, or seems to: when it is checked, or on
// an object.
type Program struct {
	Reason string
	// Source is that of an override rule.
	Source string
	// Object is the object to run it on.
	Object map[string]any
}

// Programs returns all programs.
func Programs() []Program {
	all := slices.Concat(products(), chains(), fromObjects(), builtins(), sources())
	for i := range all {
		p := &all[i]
		if !strings.Contains(p.Source, "patches:") {
			p.Source += "\npatches: []"
		}
		if !strings.Contains(p.Source, "\nobject:") && !strings.HasPrefix(p.Source, "object:") {
			p.Source += "\nobject: _"
		}
		if p.Object == nil {
			p.Object = map[string]any{}
		}
	}
	return all
}

// products are texts and lists that are multiplied.
func products() []Program {
	return []Program{
		{"a product of a text", `x: 1000000*(1000000*"x")`, nil},
		{"a product of bytes", `x: 1000000*(1000000*'x')`, nil},
		{"a product with the text first", `x: "x"*100000000000`, nil},
		{"a product with a suffix", `x: "x"*900Mi`, nil},
		{"a product of a list", `x: 1000000*(1000000*[1])`, nil},
		{"a product in a loop", `x: [for i in [1, 2, 3] {1000000000*"x"}]`, nil},
		{"a product in a condition", `if len(1000000000*"x") > 1 {x: 1}`, nil},
		{"a product in a label", `(1000000000*"x"): 1`, nil},
		{"a product in an interpolated label", `"\(1000000000*"x")": 1`, nil},
		{"a product in a let clause", "let t = 1000000000*\"x\"\nx: t", nil},
		{"a product through a definition", "#T: {n: int, out: n*\"x\"}\nx: (#T & {n: 1000000000}).out", nil},
		{"a product through an embedded definition", "#T: {n: int, out: n*\"x\"}\nx: {#T, n: 1000000000}", nil},
		{"a product through a second declaration", "x: {n: int, out: n*\"x\"}\nx: n: 1000000000", nil},
		{"a product through a pattern", "x: {[string]: {n: int, out: n*\"x\"}, a: n: 1000000000}", nil},
		{"a product through an alias", "X=y: {n: 1000000000}\nx: X.n*\"x\"", nil},
		{"a product through a value alias", "x: Y={n: 1000000000, out: Y.n*\"x\"}", nil},
		{"a product through a comprehension", "n: [1000000000]\nx: [for i in n {i*\"x\"}]", nil},
		{"a product through a default", "n: *1000000000 | int\nx: n*\"x\"", nil},
		{"a product through a bound", "n: 1000000000 & >5\nx: n*\"x\"", nil},
		{"a product through a computed number", "n: 1000*1000*1000\nx: n*\"x\"", nil},
		{"a product through a power", "import \"math\"\nx: math.Pow(10, 12)*\"x\"", nil},
		{"a product through a text", "import \"strconv\"\nx: strconv.Atoi(\"1000000000\")*\"x\"", nil},
		{"a product through a document", "import \"encoding/json\"\nx: json.Unmarshal(\"{\\\"n\\\": 1000000000}\").n*\"x\"", nil},
		{"a product through a quotient", "x: (1000/0.0000001)*\"x\"", nil},
	}
}

// chains are values each made of the one before, and loops.
func chains() []Program {
	return []Program{
		{"texts that double", chain(`"xxxxxxxx"`, `$ + $`, 40), nil},
		{"texts that double by interpolation", chain(`"xxxxxxxx"`, `"\($)\($)"`, 40), nil},
		{"lists that double", chain(`[1]`, `$ + $`, 40), nil},
		{"lists that double by concatenation", "import \"list\"\n" + chain(`[1]`, `list.Concat([$, $])`, 40), nil},
		{"lists that double by comprehension", chain(`[1, 2]`, `[for i in $ for j in $ {i}]`, 6), nil},
		{"lists of lists", chain(`[1, 2]`, `[$, $]`, 40), nil},
		{"structs of structs", chain(`{b: 1}`, `{x: $, y: $}`, 40), nil},
		{"structs of structs in let clauses", "let b = {v: 1}\n" + chain(`{x: b}`, `{x: $, y: $}`, 40), nil},
		{"definitions of definitions", strings.ReplaceAll(chain(`{b: 1}`, `{x: $, y: $}`, 40), "a", "#A"), nil},
		{"embedded structs", chain(`{b: [1, 2]}`, `{x: {$}, y: {$}}`, 40), nil},
		{"unified structs", chain(`{b: 1}`, `{x: $ & {c: 1}, y: $ & {d: 1}}`, 40), nil},
		{"alternatives of alternatives", alternatives(40), nil},
		{"fields by loops", "import \"list\"\nr: list.Range(0, 50000, 1)\nx: {for i in r for j in r {\"\\(i)-\\(j)\": 1}}", nil},
		{"loops that make nothing", "import \"list\"\nr: list.Range(0, 50000, 1)\nx: [for i in r for j in r if i*j < 0 {1}]", nil},
		{"loops in loops", "import \"list\"\nr: list.Range(0, 5000, 1)\nx: [for i in r {len([for j in r {j}])}]", nil},
		{"a range", "import \"list\"\nx: list.Range(0, 1000000000, 1)", nil},
		{"a range of small steps", "import \"list\"\nx: list.Range(0, 1, 0.000000001)", nil},
		{"a range backwards", "import \"list\"\nx: list.Range(1000000000, 0, -1)", nil},
		{"a range by another name", "import l \"list\"\nx: l.Range(0, 1000000000, 1)", nil},
		{"a repeated list", "import \"list\"\nx: list.Repeat([1], 1000000000)", nil},
		{"a repeated text", "import \"strings\"\nx: strings.Repeat(\"x\", 1000000000)", nil},
		{"replacements", "import \"strings\"\n" + chain(`"xxxxxxxxxx"`, `strings.Replace($, "x", "xxxxxxxxxx", -1)`, 12), nil},
		{"replacements of nothing", "import \"strings\"\n" + chain(`"xxxxxxxxxx"`, `strings.Replace($, "", "xxxxxxxxxx", -1)`, 12), nil},
		{"replacements by pattern", "import \"regexp\"\n" + chain(`"xxxxxxxxxx"`, `regexp.ReplaceAll(".", $, "$0$0$0$0")`, 16), nil},
		{"literal replacements by pattern", "import \"regexp\"\n" + chain(`"xxxxxxxxxx"`, `regexp.ReplaceAllLiteral(".", $, "xxxxxxxxxx")`, 12), nil},
		{"joins", "import \"strings\"\n" + chain(`"xxxxxxxxxx"`, `strings.Join([$, $, $, $], $)`, 16), nil},
		{"joins of splits", "import \"strings\"\n" + chain(`"xxxxxxxxxx"`, `strings.Join(strings.Split($, ""), $)`, 8), nil},
		{"documents in documents", "import \"encoding/json\"\n" + chain(`"\"\"\"\""`, `json.Marshal([$, $])`, 40), nil},
		{"indentation", "import \"encoding/json\"\nx: json.Indent(\"[[[[1]]]]\", 10000000*\"x\", \"\")", nil},
		{"a shift", "import \"math/bits\"\nx: bits.Lsh(1, 100000000000000)", nil},
		{"a bit", "import \"math/bits\"\nx: bits.Set(1, 100000000000000, 1)", nil},
		{"digits", "import \"strconv\"\nx: strconv.FormatFloat(1.5, 102, 1000000000, 64)", nil},
		{"a template that repeats", "import \"text/template\"\nx: template.Execute(\"{{range .}}{{range $}}{{range $}}x{{end}}{{end}}{{end}}\", [1, 2, 3])", nil},
		{"a template from elsewhere", "import \"text/template\"\nt: \"a\"\nx: template.Execute(t, {})", nil},
		{"a function that calls itself", "#F: {n: int, let m = n, out: [n, for i in [0, 1] if n > 0 for y in (#F & {n: m - 1}).out {y}]}\nx: (#F & {n: 30}).out", nil},
		{"a function that calls itself with itself", "#F: {n: int, out: {if n > 0 {(#F & {n: n-1}).out + 1}, if n <= 0 {0}}}\nx: (#F & {n: 5}).out", nil},
		{"a validation in a hidden field", `_x: 1000000*(1000000*"x")`, nil},
	}
}

// fromObjects are harmless without an object.
func fromObjects() []Program {
	number := func(n any) map[string]any { return map[string]any{"spec": map[string]any{"n": n}} }
	many := numbers(50_000)
	long := map[string]any{"s": strings.Repeat("ab", 1<<20), "t": strings.Repeat("x", 1000), "n": int64(1)}
	return []Program{
		{"a range of the object", "import \"list\"\nx: list.Range(0, object.spec.n, 1)", number(int64(1_000_000_000))},
		{"a range of the object by steps", "import \"list\"\nx: list.Range(0, 1, object.spec.n)", number(1e-9)},
		{"a text repeated by the object", "import \"strings\"\nx: strings.Repeat(\"x\", object.spec.n)", number(int64(1_000_000_000_000))},
		{"a product with the object", `x: object.spec.n*"x"`, number(int64(1_000_000_000_000))},
		{"a product with a product of the object", `x: (object.spec.n*object.spec.n)*"x"`, number(int64(1_000_000))},
		{"a product with a text of the object", "import \"strconv\"\nx: strconv.Atoi(object.spec.n)*\"x\"", number("1000000000000")},
		{"a list repeated by the object", "import \"list\"\nx: list.Repeat([1, 2], object.spec.n)", number(int64(1_000_000_000))},
		{"a shift by the object", "import \"math/bits\"\nx: bits.Lsh(1, object.spec.n)", number(int64(1_000_000_000_000))},
		{"a loop over the object in itself", `x: [for i in object.l for j in object.l {i}]`, map[string]any{"l": many}},
		{"the object in a loop over it", `x: [for i in object.l {object.l}]`, map[string]any{"l": many}},
		{"replacements in the object", "import \"strings\"\nx: strings.Replace(object.s, \"a\", object.t, -1)", long},
		{"replacements by pattern in the object", "import \"regexp\"\nx: regexp.ReplaceAll(\"a\", object.s, object.t)", long},
		{"texts of the object that double", chain("object.s", "$ + $", 8), long},
		{"a document of the object", "import \"encoding/json\"\nx: json.Unmarshal(object.spec.n).n * \"x\"", number(`{"n": 1000000000000}`)},
		{"a function of the object", "#T: {n: int, out: n*\"x\"}\nx: (#T & {n: object.spec.n}).out", number(int64(1_000_000_000_000))},
		{"a condition that lets it pass", "if object.spec.n > 9 {x: object.spec.n*\"x\"}", number(int64(1_000_000_000_000))},
	}
}

// builtins are what no estimate of sizes sees.
func builtins() []Program {
	many := numbers(50_000)
	long := map[string]any{"s": strings.Repeat("ab", 1<<20), "t": strings.Repeat("x", 1000), "n": int64(1)}
	return []Program{
		{"unique items", "import \"list\"\nx: list.UniqueItems([for i in list.Range(0, 3000, 1) {{a: i}}])", nil},
		{"unique items of the object", "import \"list\"\nx: list.UniqueItems([for i in object.l {{a: i, b: object.l}}])", map[string]any{"l": many}},
		{"a sort", "import \"list\"\nx: list.Sort([for i in list.Range(0, 20000, 1) {{a: 20000 - i}}], {x: {}, y: {}, less: x.a < y.a})", nil},
		{"a sort of the object", "import \"list\"\nx: list.Sort(object.l, {x: int, y: int, less: x > y})", map[string]any{"l": many}},
		{"a stable sort", "import \"list\"\nx: list.SortStable(object.l, {x: int, y: int, less: (x*7919)%10007 < (y*7919)%10007})", map[string]any{"l": many}},
		{"is it sorted", "import \"list\"\nx: list.IsSorted(object.l, {x: int, y: int, less: x <= y})", map[string]any{"l": many}},
		{"how many match", "import \"list\"\nx: [for i in list.Range(0, 2000, 1) {{a: i, b: [1, 2, 3]}}] & list.MatchN(>=0, {a: int, b: [...int]})", nil},
		{"one of many and one of many", "import \"list\"\nr: list.Range(0, 400, 1)\nx: or([for i in r {{a: i}}]) & or([for i in r {{b: i}}])", nil},
		{"one of many, thrice", "import \"list\"\nr: list.Range(0, 60, 1)\nx: or([for i in r {{a: i}}]) & or([for i in r {{b: i}}]) & or([for i in r {{c: i}}])", nil},
		{"one of the object and one of the object", "x: or([for i in object.l {{a: i}}]) & or([for i in object.l {{b: i}}])", map[string]any{"l": many}},
		{"all of many", "import \"list\"\nx: and([for i in list.Range(0, 3000, 1) {{\"f\\(i)\": int}}])", nil},
		{"patterns on many fields", "import \"list\"\nr: list.Range(0, 2000, 1)\nx: {for i in r {\"f\\(i)\": i}}\nx: {for i in r {[=~\"^f\\(i)$\"]: int}}", nil},
		{"closed structs of closed structs", strings.ReplaceAll(chain("close({b: 1})", "close({x: $, y: $})", 18), "a", "#A"), nil},
		{"many alternatives, each closed", "import \"list\"\n#T: or([for i in list.Range(0, 300, 1) {close({\"f\\(i)\": int})}])\nx: [for i in list.Range(0, 300, 1) {#T & {\"f\\(i)\": i}}]", nil},
		{"deep alternatives", "x: " + strings.Repeat("(", 300) + "{a: 1}" + strings.Repeat(" | {b: 1}) & ({c: 1} | {d: 1})", 14) + strings.Repeat(")", 286), nil},
		{"defaults of defaults", strings.ReplaceAll(chain("*1 | int", "*$ | ($ & int) | $", 14), "a", "d"), nil},
		{"let clauses that refer to each other", "x: {let a = {n: int, r: b & {n: a.n}}, let b = {n: int, r: a & {n: b.n}}, c: a & {n: 1}}", nil},
		{"a cycle", "x: {y: x}\nz: x & {y: y: y: y: {}}", nil},
		{"a cycle through a list", "x: [x]\ny: x & [[[[[[1]]]]]]", nil},
		{"a list that contains itself by a loop", "x: [for i in x {i}, 1]", nil},
		{"a struct that contains itself by a loop", "x: {for k, v in x {\"\\(k)a\": v}, b: 1}", nil},
		{"names by the million", "import \"list\"\nr: list.Range(0, 1000, 1)\nx: {for i in r for j in r {\"name\\(i)and\\(j)\": 1}}", nil},
		{"names of the object", "x: {for i in object.l for j in object.l {\"\\(i)-\\(j)\": 1}}", map[string]any{"l": many}},
		{"names in a document", "import \"encoding/json\"\nx: json.Unmarshal(object.doc)", map[string]any{"doc": document(60_000)}},
		{"names in a document in YAML", "import \"encoding/yaml\"\nx: yaml.Unmarshal(object.doc)", map[string]any{"doc": document(60_000)}},
		{"anchors in YAML", "import \"encoding/yaml\"\nx: yaml.Unmarshal(object.doc)", map[string]any{"doc": "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n"}},
		{"a deep document", "import \"encoding/json\"\nx: json.Unmarshal(object.doc)", map[string]any{"doc": strings.Repeat("[", 9000) + strings.Repeat("]", 9000)}},
		{"a validation of a document", "import \"encoding/json\"\nx: json.Validate(object.doc, {[string]: {[string]: {[string]: int}}})", map[string]any{"doc": document(60_000)}},
		{"a pattern that is large", "x: object.s =~ \"((a{1,30}){1,30}b){1,1}\"", long},
		{"a pattern of the object", "x: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" =~ object.p", map[string]any{"p": strings.Repeat("(a*)*", 300) + "$"}},
		{"patterns on a long text", "import \"regexp\"\nx: [for i in object.l {regexp.FindAll(\"(a|b)*?c?\", object.s, -1)}]", map[string]any{"l": many, "s": strings.Repeat("ab", 1<<18)}},
		{"numbers that grow", "import \"math\"\nx: math.Pow(10, math.Pow(10, 9))", nil},
		{"numbers that are squared", chain("123456789", "$ * $", 40), nil},
		{"digits of a number", "x: \"\\(1e100000000)\"", nil},
		{"a factorial", "#F: {n: int, out: *(n * (#F & {\"n\": n - 1}).out) | 1}\nx: (#F & {n: 3000}).out", nil},
		{"the nth of Fibonacci", "#F: {n: int, out: [if n < 2 {n}, (#F & {\"n\": n - 1}).out + (#F & {\"n\": n - 2}).out][0]}\nx: (#F & {n: 35}).out", nil},
		{"combinations", "import \"list\"\nr: list.Range(0, 60, 1)\nx: len([for a in r for b in r for c in r for d in r {1}])", nil},
		{"flattened lists", "import \"list\"\nx: list.FlattenN(" + strings.Repeat("[", 15) + "object.l" + strings.Repeat(", object.l]", 15) + ", -1)", map[string]any{"l": many}},
		{"sums of the object", "import \"list\"\nx: list.Sum([for i in object.l {list.Sum(object.l)}])", map[string]any{"l": many}},
		{"whatever contains the object", "import \"list\"\nx: [for i in object.l if list.Contains(object.l, i) {i}]", map[string]any{"l": many}},
		{"the object unified with itself", "x: [for i in object.l {object & {l: [...int]}}]", map[string]any{"l": many}},
		{"a struct compared with itself", "import \"list\"\na: {for i in list.Range(0, 3000, 1) {\"f\\(i)\": i}}\nx: [for i in list.Range(0, 3000, 1) if a == a {i}]", nil},
		{"hashes", "import \"crypto/sha512\"\nimport \"encoding/hex\"\nx: [for i in object.l {hex.Encode(sha512.Sum512(object.s))}]", map[string]any{"l": many, "s": strings.Repeat("ab", 1<<18)}},
		{"times", "import \"time\"\nx: [for i in object.l {time.FormatDuration(i*1000000000)}]", map[string]any{"l": many}},
		{"networks", "import \"net\"\nx: [for i in object.l {net.ParseIP(\"10.0.0.\\(i)\")}]", map[string]any{"l": many}},
		{"a table", "import \"text/tabwriter\"\nx: tabwriter.Write([for i in object.l {\"a\\tb\\t\\(i)\"}])", map[string]any{"l": many}},
	}
}

// sources are large themselves, or have large results.
func sources() []Program {
	many := numbers(50_000)
	return []Program{
		{"a result that is large", "patches: [for i in object.l {op: \"add\", path: \"/a\", value: object.l}]", map[string]any{"l": many}},
		{"a result that is long", "patches: [{op: \"add\", path: \"/a\", value: 900000*\"xxxxxxxx\"}]", nil},
		{"a source of many names", "x: {" + fields(8000) + "}", nil},
		{"a source of many alternatives", "x: " + strings.Repeat("1 | ", 20_000) + "1", nil},
		{"a source of many clauses", "x: [" + strings.Repeat("for i in [1, 2] ", 40) + "{i}]", nil},
		{"a source of words", "x: 1" + strings.Repeat(" div 1 mod 2", 400), nil},
		{"a source of sums", "object: _\nx: " + sums("object.a", 12), nil},
		{"a source of references", "a0: object\n" + references(3000), nil},
	}
}

// numbers returns the first n numbers.
func numbers(n int) []any {
	var list []any
	for i := range n {
		list = append(list, int64(i))
	}
	return list
}

// chain returns n names, each made of the one before.
func chain(first, next string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a0: %s\n", first)
	for i := range n {
		fmt.Fprintf(&b, "a%d: %s\n", i+1, strings.ReplaceAll(next, "$", fmt.Sprint("a", i)))
	}
	return b.String()
}

// document returns a JSON object of n fields.
func document(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `, "n%d": %d`, i, i)
	}
	return "{" + strings.TrimPrefix(b.String(), ", ") + "}"
}

func fields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "field%d: field%d\n", i+1, i)
	}
	return b.String() + "field0: 1\n"
}

func references(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d: a%d.x\n", i+1, i)
	}
	return b.String()
}

// sums returns a sum of sums that may be lists.
func sums(operand string, depth int) string {
	if depth == 0 {
		return operand
	}
	return "(" + sums(operand, depth-1) + " + " + operand + ")"
}

// alternatives returns n declarations of a struct that has one of two fields each.
func alternatives(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a: {x%d: 1} | {y%d: 1}\n", i, i)
	}
	return b.String()
}
