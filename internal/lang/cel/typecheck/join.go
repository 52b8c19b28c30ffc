package typecheck

import (
	"fmt"
	"maps"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/usher-dev/usher/internal/kind"
)

// The type checker knows sums of lists of one type only. A sum of others is found by its error, gets a function of its
// own, and the expression is checked again.

// join adds the type of a sum of lists to those that are known.
func (f *folder) join(c *classifier, e ast.Expr) {
	if !isSum(e) {
		return
	}
	args := e.AsCall().Args()
	if left, right := c.typed.GetType(args[0].ID()), c.typed.GetType(args[1].ID()); isList(left) && isList(right) {
		f.joined[e.ID()] = types.NewListType(c.either(left.Parameters()[0], right.Parameters()[0]))
	}
}

func isSum(e ast.Expr) bool {
	return e != nil && e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Add
}

// declareJoined declares functions in place of the sums whose types are known. Restore has the sums again.
func (f *folder) declareJoined(env *checker.Env, nodes map[int64]ast.Expr) (restore func(), err error) {
	for id, of := range f.joined {
		if !isSum(nodes[id]) {
			continue
		}
		name := fmt.Sprintf("@joined%d", id)
		overload := decls.Overload(name, []*types.Type{types.DynType, types.DynType}, of)
		function, err := decls.NewFunction(name, overload)
		if err == nil {
			err = env.AddFunctions(function)
		}
		if err != nil {
			return nil, fmt.Errorf("declare joined lists: %w", err)
		}
		nodes[id].SetKindCase(f.factory.NewCall(id, name, nodes[id].AsCall().Args()...))
	}
	return func() {
		for id := range f.joined {
			if e := nodes[id]; e != nil && e.Kind() == ast.CallKind {
				e.SetKindCase(f.factory.NewCall(id, operators.Add, e.AsCall().Args()...))
			}
		}
	}, nil
}

// either returns the type of values that have one of two types. Objects have the fields of both: whether one has a field
// that the other lacks is not known.
func (p *provider) either(a, b *types.Type) *types.Type {
	left, right := p.named[a.TypeName()], p.named[b.TypeName()]
	if left == nil || right == nil {
		return types.DynType
	}
	both := &kind.Schema{Type: string(kind.Map), Properties: maps.Clone(left.Properties), Open: isOpen(left) || isOpen(right)}
	for field, of := range right.Properties {
		had, shared := left.Properties[field]
		if shared && !p.typeOf(a.TypeName()+"."+field, had).IsExactType(p.typeOf(b.TypeName()+"."+field, of)) {
			of = &kind.Schema{}
		}
		both.Properties[field] = of
	}
	name := a.TypeName() + " or " + short(b)
	p.named[name] = both
	return types.NewObjectType(name)
}
