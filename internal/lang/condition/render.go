package condition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/lang/reference"
)

func (c *comparison) render() string {
	data, right := c.data.Expr(), ""
	var guards []string
	if c.operator.takes != nothing {
		guards = append(guards, data+" != _|_")
	}
	packages := append(c.message.Packages(), c.data.Packages()...)
	packages = append(packages, c.operator.packages()...)
	switch {
	case c.members != nil:
		for i := range c.members {
			packages = append(packages, c.members[i].text.Packages()...)
		}
		right = list(c.members)
	case c.value != nil:
		packages = append(packages, c.value.Packages()...)
		value := c.value.Expr()
		guards = append(guards, value+" != _|_")
		right = c.process.expr(value)
	case c.constant != nil:
		packages = append(packages, c.constant.text.Packages()...)
		right = c.process.expr(c.constant.expr())
	}
	guards = append(guards, c.operator.expr(data, right))
	return program(packages, []*reference.Reference{c.value, c.data}, guards, c.message.Expr())
}

// expr applies p to a CUE expression; a nil process does not change it.
func (p *process) expr(value string) string {
	if p == nil {
		return value
	}
	with := p.text
	if strings.HasPrefix(with, "-") {
		with = "(" + with + ")"
	}
	return "(" + value + " " + p.op + " " + with + ")"
}

func (b *badge) render() string {
	target, current := b.target.Expr(), b.current.Expr()
	needed := b.limit.Text('f')
	if b.limit.percentage {
		needed = "(" + target + " * " + needed + ")"
	}
	if b.unavailable {
		needed = "(" + target + " - " + needed + ")"
	}
	packages := append(b.target.Packages(), b.current.Packages()...)
	return program(packages, []*reference.Reference{b.target}, []string{
		"object.kind == \"Pod\"",
		"object.status.phase != _|_",
		"object.status.phase == \"Running\"",
		target + " != _|_",
		current + " != _|_",
		needed + " > (" + current + " - 1)",
	}, reference.Quote(b.reason))
}

// program returns a CUE program that is invalid for reason if all guards hold, in the format of cue
// fmt with four spaces. It imports only what it uses: newer versions of CUE reject unused imports.
func program(packages []string, references []*reference.Reference, guards []string, reason string) string {
	var b strings.Builder
	slices.Sort(packages)
	switch packages = slices.Compact(packages); len(packages) {
	case 0:
	case 1:
		fmt.Fprintf(&b, "import %q\n\n", packages[0])
	default:
		b.WriteString("import (\n")
		for _, name := range packages {
			fmt.Fprintf(&b, "    %q\n", name)
		}
		b.WriteString(")\n\n")
	}
	declare(&b, references)
	b.WriteString("\nvalidate: {\n")
	indent := "    "
	for _, guard := range guards {
		b.WriteString(indent + "if " + guard + " {\n")
		indent += "    "
	}
	b.WriteString(indent + "valid:  false\n")
	b.WriteString(indent + "reason: " + reason + "\n")
	for range guards {
		indent = indent[4:]
		b.WriteString(indent + "}\n")
	}
	b.WriteString("}")
	return b.String()
}

// declare declares what references and interpolations use, values aligned.
func declare(b *strings.Builder, references []*reference.Reference) {
	declarations := []string{"data: _ @tag(data)", "object: data.object", "kind: object.kind", "oldObject: data.oldObject"}
	for _, r := range references {
		if r != nil && r.Declaration() != "" {
			declarations = append(declarations, r.Declaration())
		}
	}
	width := 0
	for _, d := range declarations {
		width = max(width, strings.Index(d, " "))
	}
	for _, d := range declarations {
		name, value, _ := strings.Cut(d, " ")
		fmt.Fprintf(b, "%-*s %s\n", width, name, value)
	}
}
