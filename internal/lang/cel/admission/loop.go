package admission

import (
	"fmt"
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/usher-dev/usher/internal/rule"
)

const (
	// maxTried is how many items of a list are tried to find the one that decided.
	maxTried = 1000
	// maxItems is how many items are told of a list none of which decided.
	maxItems = 3
	// maxNested is how deep loops in loops are told.
	maxNested = 8
)

// loop returns what a macro such as all or exists went through: its list, and the item that decided
// its value. Of exists without one, that is the first items.
func (r *recording) loop(e celast.Expr) []rule.Expression {
	c := e.AsComprehension()
	told := r.nodes(c.IterRange())
	macro, ok := r.ast.SourceInfo().GetMacroCall(e.ID())
	body := bodyOf(c.LoopStep())
	if !ok || body == nil || len(r.locals) > 2*maxNested {
		return told
	}
	value, name := r.of(e), macro.AsCall().FunctionName()
	exists := name == "exists" || name == "exists_one" || name == "existsOne"
	var wanted func(ref.Val) bool
	switch {
	case types.IsError(value):
		wanted = types.IsError
	case name == "all" && value == types.False:
		wanted = func(v ref.Val) bool { return v == types.False }
	case exists && value == types.True:
		wanted = func(v ref.Val) bool { return v == types.True }
	case exists:
		wanted = func(ref.Val) bool { return true }
	default:
		return told
	}
	most := 1
	if exists && value == types.False {
		most = maxItems
	}
	return append(told, r.items(c, body, wanted, most)...)
}

// items returns the first items of a loop whose body has a value that wanted accepts.
func (r *recording) items(c celast.ComprehensionExpr, body celast.Expr, wanted func(ref.Val) bool, most int) []rule.Expression {
	program, err := r.plan(body)
	if err != nil {
		return nil
	}
	var told []rule.Expression
	for _, item := range entriesOf(r.of(c.IterRange())) {
		bound := map[string]any{c.IterVar(): item.first(c)}
		inner := append(slices.Clip(r.locals), c.IterVar())
		if c.HasIterVar2() {
			bound[c.IterVar2()] = item.value
			inner = append(inner, c.IterVar2())
		}
		one := &recording{
			env: r.env, ast: r.ast, expr: body, state: interpreter.NewEvalState(), locals: inner,
			vars: &loopVariables{r.vars, bound},
		}
		one.run(program)
		if !wanted(one.value) {
			continue
		}
		step := rule.Expression{Text: c.IterVar(), Parts: one.nodes(body)}
		switch {
		case c.HasIterVar2():
			step.Text = fmt.Sprintf("%s, %s at [%s]", c.IterVar(), c.IterVar2(), item.at)
			set(r.vars.Meter(), &step, item.value)
		case item.isMap:
			set(r.vars.Meter(), &step, item.key)
		default:
			step.Text += fmt.Sprintf(" at [%s]", item.at)
			set(r.vars.Meter(), &step, item.value)
		}
		if told = append(told, step); len(told) == most {
			break
		}
	}
	return told
}

// bodyOf returns what a macro evaluates for each item, of the step that it became; nil if that is
// not known.
func bodyOf(step celast.Expr) celast.Expr {
	if step.Kind() != celast.CallKind {
		return nil
	}
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

// An entry is an item of a list or map.
type entry struct {
	key, value ref.Val
	at         string
	isMap      bool
}

// first is the value of the first variable of a loop: the key if there are two, or in a map.
func (e *entry) first(c celast.ComprehensionExpr) ref.Val {
	if c.HasIterVar2() || e.isMap {
		return e.key
	}
	return e.value
}

// entriesOf are the first items of a list or map.
func entriesOf(v ref.Val) []entry {
	var all []entry
	switch v := v.(type) {
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True && len(all) < maxTried; {
			key := it.Next()
			all = append(all, entry{key: key, value: v.Get(key), at: fmt.Sprintf("%q", fmt.Sprint(key.Value())), isMap: true})
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True && len(all) < maxTried; {
			i := types.Int(len(all))
			all = append(all, entry{key: i, value: it.Next(), at: fmt.Sprint(int64(i))})
		}
	}
	return all
}
