package text

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// maxText is the length to which expressions are cut.
const maxText = 160

// printExpression prints an expression of a policy, and its parts indented below it.
func printExpression(b *strings.Builder, e *rule.Expression, p printable.Palette) {
	const indent = "        "
	fmt.Fprintf(b, "%s%s: %s", indent, printable.Paint(p.Faint, fieldText(e)), printable.CutRunes(e.Text, maxText))
	if e.Error != "" || e.Value != nil || !strings.HasPrefix(e.Field, "spec.mutations[") {
		// What an expression makes of Object{} has no value of its own: the patch shows it.
		fmt.Fprintf(b, " → %s", expressionValue(e, p))
	}
	b.WriteByte('\n')
	printParts(b, e, indent, p)
}

// fieldText names an expression: variables as expressions do, and others by their field.
func fieldText(e *rule.Expression) string {
	text := strings.TrimSuffix(strings.TrimPrefix(e.Field, "spec."), ".expression")
	switch {
	case strings.HasPrefix(text, "variables["):
		text = "variables." + e.Name
	case e.Name != "":
		text += " " + e.Name
	}
	if e.Params != "" {
		text += " with " + e.Params
	}
	return text
}

func printParts(b *strings.Builder, e *rule.Expression, indent string, p printable.Palette) {
	indent += "  "
	for i := range e.Parts {
		part := &e.Parts[i]
		if part.Unevaluated {
			fmt.Fprintf(b, "%s%s\n", indent, printable.Paint(p.Faint, printable.CutRunes(part.Text, maxText)+": not evaluated"))
			continue
		}
		fmt.Fprintf(b, "%s%s → %s\n", indent, printable.CutRunes(part.Text, maxText), expressionValue(part, p))
		printParts(b, part, indent, p)
	}
}

func expressionValue(e *rule.Expression, p printable.Palette) string {
	switch {
	case e.Error == "":
		return printable.Paint(p.Bold, Value(e.Value, e.Absent))
	case len(e.Parts) > 0 && causes(e.Parts, e.Error):
		return printable.Paint(p.Yellow, "error")
	}
	return printable.Paint(p.Yellow, "error: "+e.Error)
}

// causes reports whether one of the parts has the error of the whole.
func causes(parts []rule.Expression, err string) bool {
	for i := range parts {
		if cmp.Or(parts[i].Error, "-") == err {
			return true
		}
	}
	return false
}
