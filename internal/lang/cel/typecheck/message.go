package typecheck

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// longest limits the length of a part of an expression in a message.
const longest = 63

// text returns a node as it is written.
func (c *classifier) text(e ast.Expr) string {
	text, err := parser.Unparse(e, c.info)
	if err != nil {
		return "the value"
	}
	return printable.Cut(printable.Words(text), longest)
}

// isQuantity reports whether a value is a quantity of Kubernetes.
func (c *classifier) isQuantity(e ast.Expr) bool {
	at := c.paths[e.ID()]
	if at.holder == "" {
		return false
	}
	like := c.set.Follow(c.like(at.holder), at.steps).At
	return like != nil && like.Kind() == kind.Quantity
}

// kinds are how messages name values of a kind, one or several of them, and their type. What is empty is
// named after the type.
var kinds = map[types.Kind]struct{ one, several, typ string }{
	types.StringKind:    {"text", "texts", ""},
	types.IntKind:       {"a whole number", "whole numbers", ""},
	types.UintKind:      {"a whole number", "whole numbers", ""},
	types.DoubleKind:    {"a number", "numbers", ""},
	types.BoolKind:      {"true or false", "", ""},
	types.ListKind:      {"a list", "lists", ""},
	types.MapKind:       {"a map", "maps", ""},
	types.StructKind:    {"an object", "objects", ""},
	types.TimestampKind: {"a moment", "", "timestamp"},
	types.DurationKind:  {"a duration", "", "duration"},
	types.BytesKind:     {"bytes", "", ""},
	types.NullTypeKind:  {"null", "", "null"},
}

// describe names a type in a sentence.
func describe(t *types.Type) string {
	if isOptional(t) {
		return nameOf(t)
	}
	return cmp.Or(kinds[t.Kind()].one, "of type "+nameOf(t))
}

// describeAll names a type of several values.
func describeAll(t *types.Type) string { return cmp.Or(kinds[t.Kind()].several, nameOf(t)) }

// nameOf returns the name of a type as expressions write it.
func nameOf(t *types.Type) string {
	switch {
	case isOptional(t):
		return "an optional value"
	case t.Kind() == types.StructKind && !strings.HasPrefix(t.TypeName(), "kubernetes."):
		return "an object"
	}
	return cmp.Or(kinds[t.Kind()].typ, t.TypeName())
}

// adviseComparison says how to compare values of two types. Written are those of the operands that
// may be constants.
func (c *classifier) adviseComparison(written []ast.Expr, of []*types.Type) string {
	advice := c.adviseOperands(written, of)
	switch {
	case advice != "":
		return advice
	case isOptional(of[0]) || isOptional(of[1]):
		return admission.AdviceForOptional
	case of[0].Kind() == types.StructKind || of[1].Kind() == types.StructKind:
		return "compare a field of the object"
	case isList(of[0]) != isList(of[1]):
		return "ask whether it is in the list: VALUE in LIST"
	}
	return "compare values of one type"
}

// adviseOperands says how to write one of two operands; empty if they are neither quantities nor constants.
func (c *classifier) adviseOperands(written []ast.Expr, of []*types.Type) string {
	for _, e := range written {
		if c.isQuantity(e) {
			return "compare quantities: quantity(" + c.text(e) + ")"
		}
	}
	for i, e := range written {
		other := of[(i+1)%2]
		switch value := e.AsLiteral().(type) {
		case types.String:
			text := string(value)
			isBool := text == "true" || text == "false"
			if text != "" && strings.Trim(text, "0123456789") == "" && isNumber(other) || isBool && other.Kind() == types.BoolKind {
				return "write " + text + ", without quotes"
			}
		case types.Int, types.Double, types.Bool:
			if other.Kind() == types.StringKind {
				return fmt.Sprintf("write %q, in quotes", fmt.Sprint(value.Value()))
			}
		}
	}
	return ""
}

func (c *classifier) adviseOperator(operator string, operands []ast.Expr, of []*types.Type) string {
	if len(of) == 2 {
		a, b := of[0], of[1]
		isText := a.Kind() == types.StringKind || b.Kind() == types.StringKind
		switch {
		case isNumber(a) && isNumber(b):
			return "convert one of them: int(…) or double(…)"
		case a.Kind() == types.TimestampKind || b.Kind() == types.TimestampKind:
			return "moments in objects are texts: write timestamp(…) around it"
		case a.Kind() == types.DurationKind || b.Kind() == types.DurationKind:
			return "durations in objects are texts: write duration(…) around it"
		case operator == operators.Add && isText && (isNumber(a) || isNumber(b) || a.Kind() == types.BoolKind || b.Kind() == types.BoolKind):
			return "write string(…) around what is no text"
		case isText && (isNumber(a) || isNumber(b)):
			return cmp.Or(c.adviseOperands(operands, of), "write int(…) around the text")
		}
	}
	return "convert the values, or compare parts of them"
}

func (c *classifier) adviseFunction(call ast.CallExpr, texts []string, of []*types.Type) string {
	switch {
	case needsOptional(call, of):
		return c.adviseOptional(call.Target())
	case call.IsMemberFunction() && isList(of[0]):
		return "go through its elements: " + texts[0] + ".all(e, …)"
	case call.IsMemberFunction() && isOptional(of[0]):
		return admission.AdviceForOptional
	case call.IsMemberFunction() && (isNumber(of[0]) || of[0].Kind() == types.BoolKind):
		return "write string(" + texts[0] + ")"
	case slices.Contains([]string{"isLessThan", "isGreaterThan", "compareTo", "asInteger", "sub", "add"}, call.FunctionName()) && of[0].Kind() == types.StringKind:
		return "write quantity(" + texts[0] + ")"
	}
	return "see docs/cel.md for functions and their types"
}

// adviseOptional says how to make an optional value of one.
func (c *classifier) adviseOptional(value ast.Expr) string {
	if value.Kind() == ast.SelectKind && !value.AsSelect().IsTestOnly() {
		of := value.AsSelect()
		selected := ".?" + of.FieldName()
		if !identifier.MatchString(of.FieldName()) {
			selected = "[?" + strconv.Quote(of.FieldName()) + "]"
		}
		return "only optional values have it: write " + c.text(of.Operand()) + selected
	}
	return admission.AdviceForValue
}

// A finding is a mistake, and the kinds of objects for which it is one.
type finding struct {
	mistake

	place place
	like  *kind.Schema
	wrong []schema.GroupVersionKind
}

// problems returns what was found, in the order of the expressions.
func (r *run) problems() []rule.Problem {
	var all []*finding
	for _, f := range r.found {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *finding) int {
		return cmp.Or(cmp.Compare(a.place.expression, b.place.expression), cmp.Compare(a.place.node, b.place.node))
	})
	var problems []rule.Problem
	for _, f := range all {
		p, ok := r.problem(f)
		p.Field = r.policy.Expressions[f.place.expression].Field
		known := slices.ContainsFunc(problems, func(before rule.Problem) bool {
			before.At = rule.Place{}
			return before == p
		})
		if ok && !known {
			p.At = r.at(f.place)
			problems = append(problems, p)
		}
	}
	return problems
}

// at returns where a node is written.
func (r *run) at(of place) rule.Place {
	at := r.parsed[of.expression].NativeRep().SourceInfo().GetStartLocation(of.node)
	return rule.PlaceIn(r.policy.Expressions[of.expression].Text, at.Line(), at.Column()+1)
}

func (r *run) problem(f *finding) (rule.Problem, bool) {
	known := len(f.wrong) == r.reached[f.place]
	_, other := r.holder(f)
	everywhere := known && (!r.policy.Partial || other)
	p := rule.Problem{Severity: rule.Warning, What: f.what, Do: f.do}
	if everywhere && f.unless == "" {
		p.Severity = rule.Mistake
	}
	if f.test != "" && !everywhere {
		// Kinds are told apart by what they have.
		return p, false
	}
	if f.field == "" {
		p.What += r.wrongFor(f, everywhere)
		return p, true
	}
	near := r.near(f)
	p.Do = cmp.Or(f.do, near, "see kubectl explain")
	missing := f.at.then(f.field)
	p.What = "no " + r.names(f, "or") + " has " + missing.String()
	if f.at.holder == "" {
		p.What = fmt.Sprintf("%s has no field %s in %s", f.operand, f.field, r.names(f, "and"))
	}
	switch {
	case f.test == "has", f.test == "in":
		p.What += ", so the test for it is always false"
	case f.test == "optional":
		p.What += ", so there is never a value"
	case f.sets && !known:
		p.What += ", and the mutation sets it"
		p.Do = "write a mutation for each kind, with matchConditions"
	case !known && f.at.holder != "":
		p.What += ": the expression fails for " + pronoun(f.wrong)
		p.Do = "ask first whether it is there: " + r.presence(f, missing)
		if strings.Contains(missing.String(), rule.Element) {
			p.Do = "ask first whether it is there, with has()"
		}
	}
	if f.test != "" && near == "" {
		p.Severity = rule.Warning
	}
	return p, true
}

// presence returns an expression that asks for a missing field, after those above it that other kinds do not
// have in the same expression.
func (r *run) presence(of *finding, missing path) string {
	var tests []string
	for end := 1; end < len(missing.steps); end++ {
		above := path{holder: missing.holder, steps: missing.steps[:end]}
		for _, f := range r.found {
			if f.place.expression == of.place.expression && f.test == "" && f.field != "" && f.at.then(f.field).equal(above) {
				tests = append(tests, fmt.Sprintf("has(%s.%s) && ", above.holder, above))
				break
			}
		}
	}
	return fmt.Sprintf("%shas(%s.%s)", strings.Join(tests, ""), missing.holder, missing)
}

// wrongFor says for which kinds, and which values, an operation is wrong.
func (r *run) wrongFor(f *finding, everywhere bool) (text string) {
	if !everywhere && r.policy.several() {
		text = " in " + r.names(f, "and")
	}
	return text + f.unless
}

// near returns a question for the field that is meant, "" if none is similar.
func (r *run) near(f *finding) string {
	if unescaped := unescape(f.field); slices.Contains(f.fields, unescaped) {
		return "write " + f.at.then(unescaped).String() + ": names in objects are not escaped"
	}
	if f.at.holder == "" {
		return rule.Suggestion(f.field, f.fields)
	}
	near := rule.Nearest(f.field, f.fields)
	// The same name in another place is more likely than a similar one in this place.
	if elsewhere := r.elsewhere(f); elsewhere != nil && !strings.EqualFold(near, f.field) {
		return "did you mean " + path{steps: elsewhere}.String() + "?"
	}
	if near != "" {
		return "did you mean " + f.at.then(near).String() + "?"
	}
	return ""
}

// elsewhere returns the path to a field with the name of a missing one, nil if there is none.
func (r *run) elsewhere(f *finding) []string {
	if f.like == nil {
		return nil
	}
	return r.set.Find(f.like, f.field)
}

// unescape undoes the escapes for names in the validation rules of CustomResourceDefinitions.
func unescape(name string) string {
	if inner, ok := strings.CutPrefix(name, "__"); ok && strings.HasSuffix(inner, "__") {
		return strings.TrimSuffix(inner, "__")
	}
	return strings.NewReplacer("__underscores__", "__", "__dot__", ".", "__dash__", "-", "__slash__", "/").Replace(name)
}

func pronoun(kinds []schema.GroupVersionKind) string {
	if len(kinds) > 1 {
		return "them"
	}
	return "it"
}

// several reports whether a policy is for objects of more than one kind.
func (p *Policy) several() bool {
	return slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Kind != p.Targets[0].Kind })
}

// holder returns the kind of the object with a missing field, and whether it is another one than that
// of the request.
func (r *run) holder(f *finding) (schema.GroupVersionKind, bool) {
	if f.at.holder == paramsName {
		return r.policy.Params, true
	}
	for _, d := range r.policy.Data {
		if f.at.holder == dataPrefix+d.Name {
			return d.Kind, true
		}
	}
	return schema.GroupVersionKind{}, false
}

// mostNames limits the kinds that a message names.
const mostNames = 3

// names returns the kinds of which something is wrong.
func (r *run) names(f *finding, and string) string {
	if of, other := r.holder(f); other {
		return of.Kind
	}
	var names []string
	for _, of := range f.wrong {
		if !slices.Contains(names, of.Kind) {
			names = append(names, of.Kind)
		}
	}
	if more := len(names) - mostNames; more > 1 {
		names = append(names[:mostNames], fmt.Sprintf("%d other kinds", more))
	}
	return printable.List(names, and)
}
