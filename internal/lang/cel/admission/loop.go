package admission

import (
	"fmt"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/usher-dev/usher/internal/rule"
)

const (
	// maxItems is how many items are told of a list none of which decided.
	maxItems = 3
	// maxNested is how deep loops in loops are told.
	maxNested = 8
)

// loop returns what a macro such as all or exists went through: its list, and the item that decided
// its value. Of exists without one, that is the first items.
func (t *trace) loop(e celast.Expr) []rule.Expression {
	c := e.AsComprehension()
	told := t.nodes(c.IterRange())
	macro, ok := t.part.ast.NativeRep().SourceInfo().GetMacroCall(e.ID())
	body := bodyOf(c.LoopStep())
	if !ok || body == nil || t.depth() > 2*maxNested {
		return told
	}
	value, name := t.value(e), macro.AsCall().FunctionName()
	exists := name == "exists" || name == "exists_one" || name == "existsOne"
	most := 1
	var wanted func(ref.Val) bool
	switch {
	case types.IsError(value):
		wanted = types.IsError
	case name == "all" && value == types.False, exists && value == types.True:
		wanted = func(v ref.Val) bool { return v == value }
	case exists:
		wanted = func(ref.Val) bool { return true }
		if value == types.False {
			most = maxItems
		}
	default:
		return told
	}
	t.each(c, t.value(c.IterRange()), body, func(item *entry, v ref.Val, inner *trace) bool {
		if wanted(v) {
			told = append(told, inner.item(c, body, item))
			most--
		}
		return most > 0
	})
	return told
}

// depth is how many variables of loops there are.
func (t *trace) depth() (n int) {
	for l := t.locals; l != nil; l = l.outer {
		n++
	}
	return n
}

// item returns an item of a loop, and what its body reads.
func (t *trace) item(c celast.ComprehensionExpr, body celast.Expr, item *entry) rule.Expression {
	t.record(body)
	step, value := rule.Expression{Text: c.IterVar(), Parts: t.nodes(body)}, item.value
	switch {
	case c.HasIterVar2():
		step.Text = fmt.Sprintf("%s, %s at [%s]", c.IterVar(), c.IterVar2(), item.at())
	case item.isMap:
		value = item.key
	default:
		step.Text += fmt.Sprintf(" at [%s]", item.at())
	}
	set(t.vars.Meter(), &step, value)
	return step
}

// bodyOf returns what a macro evaluates for each item, of the step that it became; nil if that is
// not known.
func bodyOf(step celast.Expr) celast.Expr {
	args := step.AsCall().Args()
	switch step.AsCall().FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		return args[1]
	case operators.Conditional:
		return args[0]
	case operators.Add:
		if args[1].Kind() == celast.ListKind && args[1].AsList().Size() == 1 {
			return args[1].AsList().Elements()[0]
		}
	}
	return nil
}
