//go:build linux && !race

package cue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usher-dev/usher/lang/cue"
	"github.com/usher-dev/usher/rule"
)

// A bomb is a source that would end the process if it were evaluated. The tests with
// bombs run in a process of their own with little memory.
type bomb struct {
	reason string
	source string
	// object is what sets it off; without one the source is refused.
	object map[string]any
	want   string
}

const (
	tooLong    = "may become a text of more than"
	tooMany    = "may make a list of more than"
	tooMuch    = "may make more than"
	tooMuchFor = "may take more than"
	tooBig     = "may be a number of more than"
	entangled  = "is too entangled"
)

func bombs() []bomb {
	number := func(n any) map[string]any { return map[string]any{"spec": map[string]any{"n": n}} }
	var many []any
	for i := range 50_000 {
		many = append(many, int64(i))
	}
	long := map[string]any{"s": strings.Repeat("ab", 1<<20), "t": strings.Repeat("x", 1000), "n": int64(1)}
	return []bomb{
		{"a product of a text", `x: 1000000*(1000000*"x")`, nil, tooLong},
		{"a product of bytes", `x: 1000000*(1000000*'x')`, nil, tooLong},
		{"a product with the text first", `x: "x"*100000000000`, nil, tooLong},
		{"a product with a suffix", `x: "x"*900Mi`, nil, tooLong},
		{"a product of a list", `x: 1000000*(1000000*[1])`, nil, tooMany},
		{"a product in a loop", `x: [for i in [1, 2, 3] {1000000000*"x"}]`, nil, tooLong},
		{"a product in a condition", `if len(1000000000*"x") > 1 {x: 1}`, nil, tooLong},
		{"a product in a label", `(1000000000*"x"): 1`, nil, tooLong},
		{"a product in an interpolated label", `"\(1000000000*"x")": 1`, nil, tooLong},
		{"a product in a let clause", "let t = 1000000000*\"x\"\nx: t", nil, tooLong},
		{"a product through a definition", "#T: {n: int, out: n*\"x\"}\nx: (#T & {n: 1000000000}).out", nil, tooLong},
		{"a product through an embedded definition", "#T: {n: int, out: n*\"x\"}\nx: {#T, n: 1000000000}", nil, tooLong},
		{"a product through a second declaration", "x: {n: int, out: n*\"x\"}\nx: n: 1000000000", nil, tooLong},
		{"a product through a pattern", "x: {[string]: {n: int, out: n*\"x\"}, a: n: 1000000000}", nil, tooLong},
		{"a product through an alias", "X=y: {n: 1000000000}\nx: X.n*\"x\"", nil, tooLong},
		{"a product through a value alias", "x: Y={n: 1000000000, out: Y.n*\"x\"}", nil, tooLong},
		{"a product through a comprehension", "n: [1000000000]\nx: [for i in n {i*\"x\"}]", nil, tooLong},
		{"a product through a default", "n: *1000000000 | int\nx: n*\"x\"", nil, tooLong},
		{"a product through a bound", "n: 1000000000 & >5\nx: n*\"x\"", nil, tooLong},
		{"a product through a computed number", "n: 1000*1000*1000\nx: n*\"x\"", nil, tooLong},
		{"a product through a power", "import \"math\"\nx: math.Pow(10, 12)*\"x\"", nil, tooLong},
		{"a product through a text", "import \"strconv\"\nx: strconv.Atoi(\"1000000000\")*\"x\"", nil, tooLong},
		{"a product through a document", "import \"encoding/json\"\nx: json.Unmarshal(\"{\\\"n\\\": 1000000000}\").n*\"x\"", nil, tooLong},
		{"a product through a quotient", "x: (1000/0.0000001)*\"x\"", nil, tooLong},
		{"texts that double", chain(`"xxxxxxxx"`, `$ + $`, 40), nil, tooLong},
		{"texts that double by interpolation", chain(`"xxxxxxxx"`, `"\($)\($)"`, 40), nil, tooLong},
		{"lists that double", chain(`[1]`, `$ + $`, 40), nil, tooMany},
		{"lists that double by concatenation", "import \"list\"\n" + chain(`[1]`, `list.Concat([$, $])`, 40), nil, tooMany},
		{"lists that double by comprehension", chain(`[1, 2]`, `[for i in $ for j in $ {i}]`, 6), nil, tooMuchFor},
		{"lists of lists", chain(`[1, 2]`, `[$, $]`, 40), nil, tooMuch},
		{"structs of structs", chain(`{b: 1}`, `{x: $, y: $}`, 40), nil, tooMuch},
		{"structs of structs in let clauses", "let b = {v: 1}\n" + strings.ReplaceAll(chain(`{x: b}`, `{x: $, y: $}`, 40), "a0", "a0"), nil, tooMuch},
		{"definitions of definitions", strings.ReplaceAll(chain(`{b: 1}`, `{x: $, y: $}`, 40), "a", "#A"), nil, tooMuch},
		{"embedded structs", chain(`{b: [1, 2]}`, `{x: {$}, y: {$}}`, 40), nil, entangled},
		{"unified structs", chain(`{b: 1}`, `{x: $ & {c: 1}, y: $ & {d: 1}}`, 40), nil, ""},
		{"alternatives of alternatives", func() string {
			var b strings.Builder
			for i := range 40 {
				fmt.Fprintf(&b, "a: {x%d: 1} | {y%d: 1}\n", i, i)
			}
			return b.String()
		}(), nil, tooMuch},
		{"fields by loops", "import \"list\"\nr: list.Range(0, 50000, 1)\nx: {for i in r for j in r {\"\\(i)-\\(j)\": 1}}", nil, tooMuchFor},
		{"loops that make nothing", "import \"list\"\nr: list.Range(0, 50000, 1)\nx: [for i in r for j in r if i*j < 0 {1}]", nil, tooMuchFor},
		{"loops in loops", "import \"list\"\nr: list.Range(0, 5000, 1)\nx: [for i in r {len([for j in r {j}])}]", nil, tooMuch},
		{"a range", "import \"list\"\nx: list.Range(0, 1000000000, 1)", nil, tooMany},
		{"a range of small steps", "import \"list\"\nx: list.Range(0, 1, 0.000000001)", nil, tooMany},
		{"a range backwards", "import \"list\"\nx: list.Range(1000000000, 0, -1)", nil, tooMany},
		{"a range by another name", "import l \"list\"\nx: l.Range(0, 1000000000, 1)", nil, tooMany},
		{"a repeated list", "import \"list\"\nx: list.Repeat([1], 1000000000)", nil, tooMany},
		{"a repeated text", "import \"strings\"\nx: strings.Repeat(\"x\", 1000000000)", nil, tooLong},
		{"replacements", "import \"strings\"\n" + chain(`"xxxxxxxxxx"`, `strings.Replace($, "x", "xxxxxxxxxx", -1)`, 12), nil, tooLong},
		{"replacements of nothing", "import \"strings\"\n" + chain(`"xxxxxxxxxx"`, `strings.Replace($, "", "xxxxxxxxxx", -1)`, 12), nil, tooLong},
		{"replacements by pattern", "import \"regexp\"\n" + chain(`"xxxxxxxxxx"`, `regexp.ReplaceAll(".", $, "$0$0$0$0")`, 16), nil, tooLong},
		{"literal replacements by pattern", "import \"regexp\"\n" + chain(`"xxxxxxxxxx"`, `regexp.ReplaceAllLiteral(".", $, "xxxxxxxxxx")`, 12), nil, tooLong},
		{"joins", "import \"strings\"\n" + chain(`"xxxxxxxxxx"`, `strings.Join([$, $, $, $], $)`, 16), nil, tooLong},
		{"joins of splits", "import \"strings\"\n" + chain(`"xxxxxxxxxx"`, `strings.Join(strings.Split($, ""), $)`, 8), nil, ""},
		{"documents in documents", "import \"encoding/json\"\n" + chain(`"\"\"\"\""`, `json.Marshal([$, $])`, 40), nil, ""},
		{"indentation", "import \"encoding/json\"\nx: json.Indent(\"[[[[1]]]]\", 10000000*\"x\", \"\")", nil, tooLong},
		{"a shift", "import \"math/bits\"\nx: bits.Lsh(1, 100000000000000)", nil, tooBig},
		{"a bit", "import \"math/bits\"\nx: bits.Set(1, 100000000000000, 1)", nil, tooBig},
		{"digits", "import \"strconv\"\nx: strconv.FormatFloat(1.5, 102, 1000000000, 64)", nil, tooLong},
		{"a template that repeats", "import \"text/template\"\nx: template.Execute(\"{{range .}}{{range $}}{{range $}}x{{end}}{{end}}{{end}}\", [1, 2, 3])", nil, "is a template"},
		{"a template from elsewhere", "import \"text/template\"\nt: \"a\"\nx: template.Execute(t, {})", nil, "is a template"},
		{"a function that calls itself", "#F: {n: int, let m = n, out: [n, for i in [0, 1] if n > 0 for y in (#F & {n: m - 1}).out {y}]}\nx: (#F & {n: 30}).out", nil, ""},
		{"a function that calls itself with itself", "#F: {n: int, out: {if n > 0 {(#F & {n: n-1}).out + 1}, if n <= 0 {0}}}\nx: (#F & {n: 5}).out", nil, ""},
		{"a validation in a hidden field", `_x: 1000000*(1000000*"x")`, nil, tooLong},

		{"a range of the object", "import \"list\"\nx: list.Range(0, object.spec.n, 1)", number(int64(1_000_000_000)), tooMany},
		{"a range of the object by steps", "import \"list\"\nx: list.Range(0, 1, object.spec.n)", number(1e-9), tooMany},
		{"a text repeated by the object", "import \"strings\"\nx: strings.Repeat(\"x\", object.spec.n)", number(int64(1_000_000_000_000)), tooLong},
		{"a product with the object", `x: object.spec.n*"x"`, number(int64(1_000_000_000_000)), tooLong},
		{"a product with a product of the object", `x: (object.spec.n*object.spec.n)*"x"`, number(int64(1_000_000)), tooLong},
		{"a product with a text of the object", "import \"strconv\"\nx: strconv.Atoi(object.spec.n)*\"x\"", number("1000000000000"), tooLong},
		{"a list repeated by the object", "import \"list\"\nx: list.Repeat([1, 2], object.spec.n)", number(int64(1_000_000_000)), tooMany},
		{"a shift by the object", "import \"math/bits\"\nx: bits.Lsh(1, object.spec.n)", number(int64(1_000_000_000_000)), tooBig},
		{"a loop over the object in itself", `x: [for i in object.l for j in object.l {i}]`, map[string]any{"l": many}, tooMuchFor},
		{"the object in a loop over it", `x: [for i in object.l {object.l}]`, map[string]any{"l": many}, tooMuch},
		{"replacements in the object", "import \"strings\"\nx: strings.Replace(object.s, \"a\", object.t, -1)", long, tooLong},
		{"replacements by pattern in the object", "import \"regexp\"\nx: regexp.ReplaceAll(\"a\", object.s, object.t)", long, tooLong},
		{"texts of the object that double", chain("object.s", "$ + $", 8), long, tooLong},
		{"a document of the object", "import \"encoding/json\"\nx: json.Unmarshal(object.spec.n).n * \"x\"", number(`{"n": 1000000000000}`), tooLong},
		{"a function of the object", "#T: {n: int, out: n*\"x\"}\nx: (#T & {n: object.spec.n}).out", number(int64(1_000_000_000_000)), tooLong},
		{"a condition that lets it pass", "if object.spec.n > 9 {x: object.spec.n*\"x\"}", number(int64(1_000_000_000_000)), tooLong},
	}
}

const bombEnv = "USHER_TEST_BOMBS"

// TestBombs runs all bombs in a process that has 2 GiB and a minute.
func TestBombs(t *testing.T) {
	t.Parallel()
	if os.Getenv(bombEnv) != "" {
		defuse(t)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBombs$", "-test.v")
	child.Env = append(os.Environ(), bombEnv+"=1")
	if out, err := child.CombinedOutput(); err != nil {
		text := string(out)
		if len(text) > 10_000 {
			text = text[:5_000] + "\n…\n" + text[len(text)-5_000:]
		}
		t.Errorf("%v\n%s", err, text)
	}
}

// defuse checks that no bomb goes off.
func defuse(t *testing.T) {
	const most = 2 << 30
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
	e := cue.NewEvaluator(cue.Limits{})
	for _, b := range bombs() {
		fmt.Println("bomb:", b.reason)
		p, problems := cue.Compile(b.source+"\nobject: _\npatches: []", cue.Override, cue.Options{Evaluator: e})
		if b.object == nil {
			errs := rule.Errors(problems)
			if len(errs) != 1 || !strings.Contains(errs[0].What, b.want) {
				t.Errorf("%s: problems are %v, not one with %q", b.reason, problems, b.want)
			}
			continue
		}
		if p == nil {
			t.Errorf("%s: does not compile: %v", b.reason, problems)
			continue
		}
		_, err := p.Run(context.Background(), &rule.Input{Object: b.object})
		if !errors.Is(err, cue.ErrTooLarge) || !strings.Contains(err.Error(), b.want) {
			t.Errorf("%s: error is %v, not %q", b.reason, err, b.want)
		}
	}
}
