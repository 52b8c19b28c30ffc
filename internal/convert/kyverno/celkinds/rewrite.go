package celkinds

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// The roots of what expressions read.
const (
	objectName    = "object"
	oldObjectName = "oldObject"
	requestName   = "request"
	namespaceName = "namespaceObject"
	variablesName = "variables"
	dataName      = "data"
)

// How large an expression may be: Kyverno's are small.
const (
	maxExpression = 20_000
	maxDepth      = 60
)

// parse parses an expression without its macros, which stay calls.
func parse(text string) (*ast.AST, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("the expression has %d bytes: at most %d are imported", len(text), maxExpression)
	}
	p, err := parser.NewParser(parser.Macros(), parser.EnableOptionalSyntax(true), parser.MaxRecursionDepth(maxDepth), parser.ErrorRecoveryLimit(1))
	if err != nil {
		return nil, fmt.Errorf("make a parser: %w", err)
	}
	parsed, errs := p.Parse(common.NewTextSource(text))
	if all := errs.GetErrors(); len(all) > 0 {
		return nil, fmt.Errorf("the expression does not parse: %s", all[0].Message)
	}
	return parsed, nil
}

// unparse returns an expression as text.
func unparse(e ast.Expr, info *ast.SourceInfo) (string, error) {
	text, err := parser.Unparse(e, info, parser.WrapOnColumn(120), parser.WrapOnOperators("_&&_", "_||_"))
	if err != nil {
		return "", fmt.Errorf("write an expression: %w", err)
	}
	return text, nil
}

// A rewriter rewrites the expressions of one policy.
type rewriter struct {
	*conversion

	factory ast.ExprFactory
	// texts are the variables as they were written.
	texts map[string]string
	// aliases are the sources of data that have taken the place of variables.
	aliases map[string]string
	data    []v1alpha1.DataSource
	// own says that the objects are in namespaces.
	own bool
	// empty are variables that have taken the place of objects that may be null, by the name of these.
	empty map[string]string
	used  map[string]bool
	// made are what calls have become, whose fields are known.
	made map[ast.Expr]bool
	// at is the field of the expression, and naming that of the variable, if it is one.
	at, naming string
	changed    bool
}

// rewrite rewrites the expressions of a policy, and returns the data that they read.
func (c *conversion) rewrite(s *specification) []v1alpha1.DataSource {
	r := &rewriter{
		conversion: c, factory: ast.NewExprFactory(), texts: map[string]string{}, aliases: map[string]string{},
		own: c.namespaced(s.MatchConstraints.ResourceRules), empty: map[string]string{}, used: map[string]bool{}, made: map[ast.Expr]bool{},
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(s.Variables, func(v admissionv1.Variable) bool { return v.Name == name })
	}
	for name, replacement := range absent(s.MatchConstraints.ResourceRules) {
		for taken(replacement) {
			replacement += "_"
		}
		r.empty[name] = replacement
	}
	for _, v := range s.Variables {
		r.texts[v.Name] = v.Expression
	}
	var kept []admissionv1.Variable
	for n := range s.Variables {
		v := &s.Variables[n]
		r.naming = v.Name
		r.expression(expression{fmt.Sprintf("spec.variables[%d].expression", n), &v.Expression})
		if r.aliases[v.Name] == "" {
			kept = append(kept, *v)
		}
	}
	r.naming = ""
	for _, e := range s.expressions() {
		if !strings.HasPrefix(e.field, "spec.variables") {
			r.expression(e)
		}
	}
	s.Variables = kept
	for _, name := range []string{oldObjectName, objectName} {
		if r.used[name] {
			s.Variables = append([]admissionv1.Variable{{Name: r.empty[name], Expression: name + " == null ? {} : " + name}}, s.Variables...)
		}
	}
	return r.data
}

// absent returns the objects that requests may not have, each with a name for what Kyverno has in their place: an
// object without fields.
func absent(rules []admissionv1.NamedRuleWithOperations) map[string]string {
	all := map[string]string{}
	for _, r := range rules {
		for _, operation := range r.Operations {
			if operation != admissionv1.Update && operation != admissionv1.Delete {
				all[oldObjectName] = "old"
			}
			if operation == admissionv1.Delete || operation == admissionv1.OperationAll {
				all[objectName] = "new"
			}
		}
	}
	return all
}

// leave leaves the policy out because of the expression.
func (r *rewriter) leave(what, do string) {
	r.i.Leave(r.i.Of, r.at, what, do)
}

// expression rewrites one expression. It stays as it is written unless something in it changes.
func (r *rewriter) expression(e expression) {
	r.at, r.changed = e.field, false
	parsed, err := parse(*e.text)
	if err != nil {
		r.leave(err.Error(), "correct the policy")
		return
	}
	root := parsed.Expr()
	r.walk(root, nil)
	if !r.changed {
		*e.text = strings.TrimSpace(*e.text)
		return
	}
	text, err := unparse(root, parsed.SourceInfo())
	if err != nil {
		r.leave(err.Error(), "write the expression in another way")
		return
	}
	*e.text = text
	if name, ok := strings.CutPrefix(text, dataName+"."); ok && r.naming != "" && r.isData(name) {
		r.aliases[r.naming] = name
	}
}

// binders are macros that bind a name, or two.
var binders = []string{"all", "exists", "exists_one", "existsOne", "map", "filter", "transformList", "transformMap", "transformMapEntry", "optMap", "optFlatMap", "sortBy", "bind"}

// walk rewrites an expression from its leaves to its root. Bound are names of macros.
func (r *rewriter) walk(e ast.Expr, bound []string) {
	inner := children(e, bound, r.walk)
	switch e.Kind() {
	case ast.CallKind:
		r.call(e, inner)
	case ast.SelectKind:
		r.selection(e, bound)
	case ast.IdentKind:
		r.ident(e, bound)
	}
}

// ident rewrites a name.
func (r *rewriter) ident(e ast.Expr, bound []string) {
	name := e.AsIdent()
	if replacement := r.empty[name]; replacement != "" && !slices.Contains(bound, name) {
		r.used[name] = true
		r.replace(e, r.factory.NewSelect(0, r.factory.NewIdent(0, variablesName), replacement))
	}
}

// selection rewrites the selection of a field.
func (r *rewriter) selection(e ast.Expr, bound []string) {
	of, field := e.AsSelect().Operand(), e.AsSelect().FieldName()
	switch {
	case isIdent(of, variablesName, bound) && r.aliases[field] != "":
		r.replace(e, r.factory.NewSelect(0, r.factory.NewIdent(0, dataName), r.aliases[field]))
	case isIdent(of, "exceptions", bound) && field == "allowedImages":
		r.text(e, r.allowed(func(e *exception) []string { return e.images }))
	case isIdent(of, "exceptions", bound) && field == "allowedValues":
		r.text(e, r.allowed(func(e *exception) []string { return e.values }))
	case r.made[of] && of.Kind() == ast.MapKind:
		for _, entry := range of.AsMap().Entries() {
			if entry.AsMapEntry().Key().AsLiteral() == types.String(field) {
				r.replace(e, entry.AsMapEntry().Value())
				return
			}
		}
	}
}

// isIdent reports whether an expression is a name that no macro binds.
func isIdent(e ast.Expr, name string, bound []string) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == name && !slices.Contains(bound, name)
}

func (r *rewriter) replace(e, with ast.Expr) {
	e.SetKindCase(with)
	r.changed = true
}

// text replaces an expression by a text.
func (r *rewriter) text(e ast.Expr, text string) {
	parsed, err := parse(text)
	if err != nil {
		r.leave(err.Error(), "write the expression in another way")
		return
	}
	r.replace(e, parsed.Expr())
	r.made[e] = true
}
