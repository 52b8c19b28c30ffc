package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// Render returns t as a CUE program, in the style of cue fmt with four spaces: given data
// with object, oldObject and what [Params] returns as extraParams, it defines patches. It
// means the same in CUE v0.4.3, for which kinitiras renders, and in v0.17.
func Render(t *v1alpha1.OverrideRuleTemplate) (string, []rule.Problem) {
	p, problems := compile(t)
	if p == nil {
		return "", problems
	}
	return p.cue(), problems
}

func (p *plan) cue() string {
	header := []field{
		{"data", "_ @tag(data)"},
		{"object", "data.object"},
		{"kind", "object.kind"},
		{"oldObject", "data.oldObject"},
	}
	if p.reference != nil {
		if label, value, ok := strings.Cut(p.reference.Declaration(), ": "); ok {
			header = append(header, field{label, value})
		}
	}
	sections := []string{fields(header)}
	if p.inPod {
		sections = append(sections, fields([]field{podField()}))
	}
	for _, declare := range p.declares {
		for _, f := range declare() {
			sections = append(sections, fields([]field{f}))
		}
	}
	patches := make([]string, len(p.steps))
	for i, s := range p.steps {
		patches[i] = s.cue()
	}
	sections = append(sections, fields([]field{{"patches", list(patches...)}}))
	if imports := p.importBlock(); imports != "" {
		sections = slices.Insert(sections, 0, imports)
	}
	return strings.Join(sections, "\n\n") + "\n"
}

func (p *plan) importBlock() string {
	packages := slices.Clone(p.imports)
	for _, t := range p.texts {
		packages = append(packages, t.Packages()...)
	}
	if p.reference != nil && p.reference.Open() {
		// An open reference stands in the program as an interpolation does.
		t := reference.ParseText(`\(` + p.reference.Expr() + `)`)
		packages = append(packages, t.Packages()...)
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	switch len(packages) {
	case 0:
		return ""
	case 1:
		return "import " + literal(packages[0])
	}
	var b strings.Builder
	b.WriteString("import (\n")
	for _, name := range packages {
		b.WriteString(indent + literal(name) + "\n")
	}
	b.WriteString(")")
	return b.String()
}

const indent = "    "

// indented returns a piece of CUE one level deeper. Strings never span lines.
func indented(s string) string {
	return indent + strings.ReplaceAll(s, "\n", "\n"+indent)
}

// A field is one field of a CUE struct; its value may take several lines.
type field struct{ label, value string }

// composite reports whether the value is a list or a struct, which cue fmt does not align
// with other values.
func (f *field) composite() bool { return strings.ContainsAny(f.value[:1], "[{") }

// fields prints fields, the values of neighbours aligned.
func fields(fs []field) string {
	lines := make([]string, 0, len(fs))
	for len(fs) > 0 {
		n := slices.IndexFunc(fs, func(f field) bool { return f.composite() })
		switch n {
		case -1:
			n = len(fs)
		case 0:
			n = 1
		}
		width := 0
		for _, f := range fs[:n] {
			width = max(width, len([]rune(f.label)))
		}
		for _, f := range fs[:n] {
			lines = append(lines, fmt.Sprintf("%-*s %s", width+1, f.label+":", f.value))
		}
		fs = fs[n:]
	}
	return strings.Join(lines, "\n")
}

// block prints a struct.
func block(fs []field) string {
	if len(fs) == 0 {
		return "{}"
	}
	return "{\n" + indented(fields(fs)) + "\n}"
}

// list prints a list.
func list(items ...string) string {
	if len(items) == 0 {
		return "[]"
	}
	return "[\n" + indented(strings.Join(items, ",\n")) + ",\n]"
}

// first prints the first of some items that has a value.
func first(items ...string) string { return list(items...) + "[0]" }

// when prints an item that has a value if the condition holds.
func when(condition, value string) string {
	return "if " + condition + " {\n" + indented(value) + "\n}"
}

// comprehension prints a struct that a list holds for each turn of loop, "" for none, in
// which all conditions hold.
func comprehension(loop string, conditions []string, body []field) string {
	var clauses strings.Builder
	if loop != "" {
		clauses.WriteString(loop + " ")
	}
	for _, c := range conditions {
		clauses.WriteString("if " + c + " ")
	}
	return clauses.String() + block(body)
}

// literal prints a JSON value.
func literal(tree any) string {
	switch v := tree.(type) {
	case string:
		return reference.Quote(v)
	case map[string]any:
		fs := make([]field, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fs = append(fs, field{label(key), literal(v[key])})
		}
		return block(fs)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = literal(v[i])
		}
		return list(items...)
	case nil:
		return "null"
	}
	return fmt.Sprint(tree)
}

// label prints the name of a field.
func label(key string) string {
	if isName(key) {
		return key
	}
	return reference.Quote(key)
}

// isName reports whether a key can stand in CUE without quotes.
func isName(key string) bool { return !strings.Contains(key, "_") && reference.IsPlainName(key) }
