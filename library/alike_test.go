package library_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"

	"github.com/usher-dev/usher/library"
)

// TestNoTwoPoliciesAreAlike compares what policies decide, without their constants and the names that
// they give: what differs only in these is one policy with params, or one that a pack includes.
func TestNoTwoPoliciesAreAlike(t *testing.T) {
	t.Parallel()
	shapes := map[string]string{}
	for _, pack := range packs(t) {
		for i := range pack.Policies {
			p := &pack.Policies[i]
			if p.Origin != p.Pack {
				continue
			}
			shape := shapeOf(t, p)
			if other, ok := shapes[shape]; ok {
				t.Errorf("%s and %s differ only in constants", other, p.Name)
			}
			shapes[shape] = p.Name
		}
	}
}

// TestShapes is about what makes policies alike.
func TestShapes(t *testing.T) {
	t.Parallel()
	const expression = "object.spec.containers.all(c, c.image in params.images)"
	for _, row := range []struct {
		reason, other string
		alike         bool
	}{
		{"another constant", "object.spec.containers.all(c, c.image in ['a', 'b'])", true},
		{"another param", "object.spec.containers.all(c, c.image in params.names)", true},
		{"another variable of the macro", "object.spec.containers.all(x, x.image in params.images)", true},
		{"another field", "object.spec.containers.all(c, c.name in params.images)", false},
		{"another macro", "object.spec.containers.exists(c, c.image in params.images)", false},
		{"another list", "object.spec.initContainers.all(c, c.image in params.images)", false},
		{"brackets and spaces", "(object.spec.containers).all(c,(c.image in params.images))", true},
	} {
		first, second := (&shape{}).of(t, expression), (&shape{}).of(t, row.other)
		if (first == second) != row.alike {
			t.Errorf("%s: %s and %s", row.reason, first, second)
		}
	}
	if a, b := (&shape{}).of(t, "object.spec.replicas < 2"), (&shape{}).of(t, "object.spec.replicas < 30"); a != b {
		t.Errorf("other numbers: %s and %s", a, b)
	}
	if a, b := (&shape{}).of(t, "object.type in ['a']"), (&shape{}).of(t, "object.type in ['b', 'c']"); a != b {
		t.Errorf("other lists of constants: %s and %s", a, b)
	}
}

// shapeOf returns what a policy decides, without constants, messages and names. Its match is part of
// it: another kind of object is another purpose.
func shapeOf(t *testing.T, p *library.Policy) string {
	t.Helper()
	var b strings.Builder
	s := shape{names: map[string]string{}}
	resources := p.Spec.MatchConstraints.ResourceRules
	for i := range resources {
		fmt.Fprintln(&b, resources[i].APIGroups, resources[i].Resources)
	}
	for i := range p.Spec.Data {
		fmt.Fprintln(&b, "data", p.Spec.Data[i])
	}
	for i := range p.Spec.MatchConditions {
		fmt.Fprintln(&b, "condition", s.of(t, p.Spec.MatchConditions[i].Expression))
	}
	for i, v := range p.Spec.Variables {
		fmt.Fprintln(&b, "variable", s.of(t, v.Expression))
		s.names["variables."+v.Name] = fmt.Sprintf("variables.%d", i)
	}
	for i := range p.Spec.Validations {
		fmt.Fprintln(&b, "validation", s.of(t, p.Spec.Validations[i].Expression))
	}
	for i := range p.Spec.Mutations {
		m := &p.Spec.Mutations[i]
		switch {
		case m.ApplyConfiguration != nil:
			fmt.Fprintln(&b, "apply", s.of(t, m.ApplyConfiguration.Expression))
		case m.JSONPatch != nil:
			fmt.Fprintln(&b, "patch", s.of(t, m.JSONPatch.Expression))
		default:
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
	}
	return b.String()
}

// A shape writes expressions without constants, which params are, too, and without names.
type shape struct {
	// names are what replaces variables of the policy.
	names map[string]string
	// bound are the variables of the macros around a part, the innermost last.
	bound []string
}

// of returns the shape of an expression. Macros are not expanded: they are calls whose first
// arguments are names.
func (s *shape) of(t *testing.T, expression string) string {
	t.Helper()
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true), parser.EnableIdentEscapeSyntax(true))
	if err != nil {
		t.Fatal(err)
	}
	parsed, issues := p.Parse(common.NewTextSource(expression))
	if len(issues.GetErrors()) > 0 {
		t.Fatalf("%s: %s", expression, issues.ToDisplayString())
	}
	return s.write(parsed.Expr())
}

const constant = "_"

func (s *shape) write(e ast.Expr) string {
	switch e.Kind() {
	case ast.LiteralKind:
		return constant
	case ast.IdentKind:
		if i := slices.Index(s.bound, e.AsIdent()); i >= 0 {
			return fmt.Sprintf("$%d", i)
		}
		return e.AsIdent()
	case ast.SelectKind:
		return s.field(e.AsSelect().Operand(), e.AsSelect().FieldName())
	case ast.CallKind:
		return s.call(e.AsCall())
	case ast.ListKind:
		items := s.all(e.AsList().Elements())
		if !slices.ContainsFunc(items, func(item string) bool { return item != constant }) {
			return constant
		}
		return "[" + strings.Join(items, " ") + "]"
	case ast.MapKind:
		items := []string{}
		for _, entry := range e.AsMap().Entries() {
			items = append(items, s.write(entry.AsMapEntry().Key())+":"+s.write(entry.AsMapEntry().Value()))
		}
		return "{" + strings.Join(items, " ") + "}"
	case ast.StructKind:
		items := []string{}
		for _, field := range e.AsStruct().Fields() {
			items = append(items, field.AsStructField().Name()+":"+s.write(field.AsStructField().Value()))
		}
		return e.AsStruct().TypeName() + "{" + strings.Join(items, " ") + "}"
	}
	return fmt.Sprint(e)
}

func (s *shape) field(operand ast.Expr, name string) string {
	whole := s.write(operand) + "." + name
	if strings.HasPrefix(whole, "params.") {
		return constant
	}
	if other, ok := s.names[whole]; ok {
		return other
	}
	return whole
}

func (s *shape) call(call ast.CallExpr) string {
	args := call.Args()
	if call.FunctionName() == operators.OptSelect {
		return s.field(args[0], fmt.Sprint(args[1].AsLiteral().Value()))
	}
	target := ""
	if call.IsMemberFunction() {
		target = s.write(call.Target()) + "."
		for len(args) > 1 && args[0].Kind() == ast.IdentKind {
			s.bound = append(s.bound, args[0].AsIdent())
			args = args[1:]
		}
	}
	text := target + call.FunctionName() + "(" + strings.Join(s.all(args), " ") + ")"
	s.bound = s.bound[:len(s.bound)-len(call.Args())+len(args)]
	return text
}

func (s *shape) all(parts []ast.Expr) []string {
	texts := make([]string, len(parts))
	for i := range parts {
		texts[i] = s.write(parts[i])
	}
	return texts
}
