package kyverno

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert/kyverno/expression"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// A judge writes what a rule with variables says about an object: the one of the request, or the one before an update.
type judge struct {
	*conversion

	r     *syntax.Rule
	p     *piece
	scope *expression.Scope
	// object is the object in CEL.
	object string
	// preconditions and deny are what is left of the conditions of the rule.
	preconditions, deny *syntax.Conditions
	// suffix is that of the names of variables.
	suffix string
	// entries are the names of variables of the rule.
	entries map[string]string
}

// expressions converts a rule with variables.
func (c *conversion) expressions(r *syntax.Rule) (*piece, error) {
	operations := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
	if r.Validate.Pattern == nil && r.Validate.AnyPattern == nil {
		operations = append(operations, admissionv1.Delete, admissionv1.Connect)
	}
	p, err := c.piece(r, operations...)
	if err != nil {
		return nil, err
	}
	j := &judge{conversion: c, r: r, p: p, preconditions: r.Preconditions, entries: map[string]string{}}
	if d := r.Validate.Deny; d != nil {
		j.deny = d.Conditions
	}
	if err := j.operations(); err != nil {
		return nil, err
	}
	if j.deletes() && !strings.Contains(textOf(r.Raw), "DELETE") {
		j.note(r.Field, "deletions are denied, too, as by Kyverno: the rule names no operations", "write operations into its match for others")
	}
	if err := j.repeated(); err != nil {
		return nil, &differs{err}
	}
	now, err := j.says(j.current())
	if err != nil {
		return nil, err
	}
	now = some(not(p.selection.applies), now)
	v := &v1alpha1.Validation{Name: label(r.Name)}
	j.message(v)
	v.Expression = now.text
	if c.mayViolate(r, p) {
		before, err := j.says(j.former())
		if err != nil {
			return nil, err
		}
		j.graced(v, now, before)
	}
	p.validations = append(p.validations, *v)
	return p, nil
}

// graced lets objects be updated that violated the rule before.
func (j *judge) graced(v *v1alpha1.Validation, now, before term) {
	before = some(not(j.p.selection.before), before)
	if before == yes || now == yes {
		return
	}
	name := camel(j.r.Name)
	j.variable(name, now.text)
	j.variable(name+"Before", some(compare("request.operation", "!=", "'UPDATE'"), before).text)
	// What fails now fails, whatever was before.
	v.Expression = "variables." + name + " ? true : !variables." + name + "Before"
}

// mayViolate reports whether it counts what an object was before an update. With preconditions it never does: Kyverno
// does not get as far as the old object.
func (c *conversion) mayViolate(r *syntax.Rule, p *piece) bool {
	allow := r.Validate.AllowExistingViolations
	// Kyverno judges what was before as if it were created.
	created := !slices.ContainsFunc(slices.Concat(r.Match.Any, r.Match.All, []syntax.Block{r.Match.Block}), func(b syntax.Block) bool {
		return len(b.Resources.Operations) > 0 && !slices.Contains(b.Resources.Operations, "CREATE")
	})
	return created && r.Preconditions == nil && c.enforces(r) && (allow == nil || *allow) && !p.selection.users && slices.ContainsFunc(p.selection.rules, func(o admissionv1.NamedRuleWithOperations) bool {
		return slices.Contains(o.Operations, admissionv1.Update)
	})
}

// operations takes conditions on the operation alone out of the conditions, and operations for which the rule
// says nothing out of the selection.
func (j *judge) operations() error {
	rules := j.p.selection.rules
	kept := map[admissionv1.OperationType]bool{}
	for i := range rules {
		rules[i].Operations = slices.DeleteFunc(slices.Clone(rules[i].Operations), func(o admissionv1.OperationType) bool {
			return o == admissionv1.Connect && !slices.ContainsFunc(rules[i].Resources, func(name string) bool { return strings.Contains(name, "/") })
		})
		for _, o := range rules[i].Operations {
			kept[o] = true
		}
	}
	j.preconditions = j.byOperation(j.preconditions, kept)
	j.deny = j.byOperation(j.deny, kept)
	for i := range rules {
		rules[i].Operations = slices.DeleteFunc(rules[i].Operations, func(o admissionv1.OperationType) bool { return !kept[o] })
	}
	j.p.selection.rules = slices.DeleteFunc(rules, func(r admissionv1.NamedRuleWithOperations) bool { return len(r.Operations) == 0 })
	if len(j.p.selection.rules) == 0 {
		return refuse(j.r.Field, "it is for no operation: its conditions never hold", "leave it out")
	}
	return nil
}

// byOperation returns conditions without those at the beginning that the operation alone decides, and keeps the
// operations for which they hold.
func (j *judge) byOperation(c *syntax.Conditions, kept map[admissionv1.OperationType]bool) *syntax.Conditions {
	if c == nil {
		return nil
	}
	rest := *c
	if len(rest.Any) == 1 && len(rest.All) == 0 {
		rest.Any, rest.All = nil, rest.Any
	}
	if rest.Any != nil {
		return c
	}
	for len(rest.All) > 0 {
		holds := map[admissionv1.OperationType]bool{}
		for o := range kept {
			s := expression.NewScope(expression.ObjectOf(j.Kinds)).With("request.operation", expression.Constant(string(o)))
			v, err := s.Condition(&rest.All[0])
			of, ok := v.Constant.(bool)
			if err != nil || !v.IsConstant || !ok {
				return &rest
			}
			holds[o] = of
		}
		for o := range kept {
			kept[o] = kept[o] && holds[o]
			if !kept[o] {
				delete(kept, o)
			}
		}
		rest.All = rest.All[1:]
	}
	return &rest
}

var ofImages = regexp.MustCompile(`\bimages\.`)

var ofObject = regexp.MustCompile(`request\.(?:oldObject|object)\b(?:\.(\w+)(?:\.(\w+))?)?`)

// quotedObject finds what Kyverno does not rewrite for workloads.
var quotedObject = regexp.MustCompile(`\brequest(?:\s*\.\s*\\*"|\s+\.\s*|\.\s+|\s*\|\s*\\*"?)(?:oldObject|object)\b`)

// repeated refuses a rule for pods that reads what differs in the workloads for which Kyverno repeats it.
func (j *judge) repeated() error {
	if j.p.templates == v1alpha1.PodTemplatesOff || j.p.templates == "" || !j.p.selection.pods {
		return nil
	}
	text := textOf(j.r.Raw)
	if found := quotedObject.FindString(text); found != "" {
		return refuse(j.r.Field, "it is repeated for workloads, and reads the object as "+found+", which Kyverno leaves as it is there", "write request.object")
	}
	for _, found := range ofObject.FindAllStringSubmatch(text, -1) {
		switch field, of := found[1], found[2]; {
		case field == "metadata" && of != "labels" && of != "annotations":
			return refuse(j.r.Field, "it is repeated for workloads, and reads "+found[0]+", which their templates do not have", "turn autogen off, or read request.namespace")
		case field != "spec" && field != "metadata":
			return refuse(j.r.Field, "it is repeated for workloads, and reads "+found[0]+", which differs there", "turn autogen off, or write a rule for each kind")
		}
	}
	if j.deletes() {
		j.note(j.r.Field, "workloads that are deleted are not judged by their templates, as they are by Kyverno", "")
	}
	return nil
}

// deletes reports whether the rule is for objects that are deleted.
func (j *judge) deletes() bool {
	return slices.ContainsFunc(j.p.selection.rules, func(r admissionv1.NamedRuleWithOperations) bool {
		return slices.Contains(r.Operations, admissionv1.Delete)
	})
}

// current returns the scope for the object of the request.
func (j *judge) current() *expression.Scope {
	j.suffix, j.object = "", "object"
	of := expression.ObjectOf(j.Kinds, j.p.selection.shape.of...)
	s := expression.NewScope(of)
	deletes, creates, others := j.deletes(), false, false
	for _, r := range j.p.selection.rules {
		creates = creates || slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.Connect)
		others = others || len(r.Operations) > 1 || !slices.Contains(r.Operations, admissionv1.Delete)
	}
	switch {
	case deletes && others && strings.Contains(textOf(j.r.Raw), "request.object"):
		j.object = "variables.current"
		j.variable("current", "object == null ? oldObject : object")
	case deletes:
		j.object = "oldObject"
	}
	if j.object != "object" {
		s = s.With("request.object", expression.Named(j.object, of))
	}
	if j.p.selection.pods && others {
		s = s.Images(deletes)
	}
	if !creates {
		s = s.With("request.oldObject", expression.Named("oldObject", of))
	}
	return expression.Naming(s, j.naming)
}

// naming adds a variable for a part of an expression, and returns how it is read.
func (j *judge) naming(name, text string) string {
	return j.named(name, expression.Named(text, expression.Type{})).Text
}

// former returns the scope for the object before an update, which Kyverno judges as if it were created.
func (j *judge) former() *expression.Scope {
	j.suffix, j.object = "Before", "oldObject"
	of := expression.ObjectOf(j.Kinds, j.p.selection.shape.of...)
	s := expression.NewScope(of).With("request.object", expression.Named("oldObject", of))
	if j.p.selection.pods {
		if ofImages.MatchString(textOf(j.r.Raw)) {
			j.note(j.r.Field, "updates that violate it are allowed, as in Kyverno: it takes the images of the new object for those that were before", "write it with the preconditions of its operations")
		}
		s = s.Images(false)
	}
	return expression.Naming(s, j.naming).With("request.oldObject", expression.Constant(nil)).With("request.operation", expression.Constant("CREATE"))
}

// variable adds a variable to the piece.
func (j *judge) variable(name, text string) {
	v := admissionv1.Variable{Name: name, Expression: text}
	if !slices.Contains(j.p.variables, v) {
		j.p.variables = append(j.p.variables, v)
	}
}

// placed returns an error with its place.
func placed(field string, err error) error {
	if cannot, ok := errors.AsType[*expression.Error](err); ok {
		return refuse(field, cannot.What, cannot.Do)
	}
	return err
}

// says returns a term that holds unless the object violates the rule.
func (j *judge) says(s *expression.Scope) (term, error) {
	j.scope = s
	j.context(j.r.Context)
	applies, fails := yes, false
	if j.preconditions != nil {
		v, err := j.scope.Conditions(j.preconditions)
		if err != nil {
			return no, placed(j.preconditions.Field, err)
		}
		applies, fails = termOf(v), v.CanFail()
	}
	ok, err := j.passes()
	if err != nil {
		return no, err
	}
	for _, text := range j.scope.Notes() {
		j.note(j.r.Field, text, "")
	}
	if fails && ok != yes {
		// An error of the preconditions is one of the rule, even if the object fits.
		return term{text: applies.within(either) + " ? " + ok.within(either) + " : true", binds: choice}, nil
	}
	return when(applies, ok, yes), nil
}

// termOf returns a condition as a term.
func termOf(v expression.Value) term {
	switch v.Text {
	case "true":
		return yes
	case "false":
		return no
	}
	return term{text: v.Text, binds: bindingOf(v)}
}

func bindingOf(v expression.Value) binding {
	switch v.Binding() {
	case expression.Ternary:
		return choice
	case expression.Disjunction:
		return either
	case expression.Conjunction:
		return both
	case expression.Relation:
		return relation
	default:
		return primary
	}
}

// passes returns a term that holds if an object to which the rule applies does not violate it.
func (j *judge) passes() (term, error) {
	v := j.r.Validate
	switch {
	case v.Deny != nil && (j.deny == nil || len(j.deny.All) == 0 && j.deny.Any == nil):
		return no, nil
	case v.Deny != nil:
		denied, err := j.scope.Conditions(j.deny)
		if err != nil {
			return no, placed(v.Field+".deny", err)
		}
		return not(termOf(denied)), nil
	case v.Foreach != nil:
		return j.foreach(v.Foreach, 0)
	}
	return j.fits(v.Pattern, v.AnyPattern, j.object, j.p.selection.shape, nil)
}

// fits returns a term that holds if a value fits a pattern, which may have variables.
func (j *judge) fits(pattern, anyPattern *syntax.Pattern, at string, of shape, taken []string) (term, error) {
	a, err := j.answer(pattern, anyPattern, at, of, taken)
	return a.ok, err
}

func (j *judge) answer(pattern, anyPattern *syntax.Pattern, at string, of shape, taken []string) (answer, error) {
	w := &patterns{taken: taken, leaf: j.leaf, note: func(field, what string) { j.note(field, what, "") }}
	if pattern != nil {
		if at == "object" || at == "oldObject" || at == "variables.current" {
			return w.root(pattern, at, of)
		}
		return w.answer(pattern, at, of)
	}
	if anyPattern == nil || anyPattern.Sort != syntax.List {
		return answer{}, refuse(j.r.Validate.Field, "it validates nothing", "leave it out")
	}
	passes, skipped := no, yes
	for _, p := range anyPattern.Items {
		a, err := w.root(p, at, of)
		if err != nil {
			return answer{}, err
		}
		passes, skipped = some(passes, a.passes()), all(skipped, a.skips)
	}
	return answer{some(passes, skipped), skipped}, nil
}

// leaf replaces a text with variables in a pattern.
func (j *judge) leaf(p *syntax.Pattern, at string, of shape) (term, bool, error) {
	text, ok := p.Scalar.(string)
	if !ok || !hasVariable(text) {
		return no, false, nil
	}
	fits, err := j.scope.Fits(expression.Named(at, expression.OfSchemas(j.Kinds, of.of...)), text)
	if err != nil {
		return no, true, placed(p.Field, err)
	}
	return termOf(fits), true, nil
}

// message sets the message of a validation.
func (j *judge) message(v *v1alpha1.Validation) {
	text := strings.TrimSpace(j.r.Validate.Message)
	if text == "" {
		v.Message = "validation error: rule " + j.r.Name + " failed"
		return
	}
	m, err := j.scope.Message(text)
	switch {
	case err != nil:
		v.Message = variablesIn.ReplaceAllString(text, "$1")
		j.note(j.r.Validate.Field+".message", "the message has the names of variables in place of their values", "write a messageExpression")
	case m.IsConstant:
		v.Message, _ = m.Constant.(string)
	default:
		v.MessageExpression = m.Text
	}
}

var variablesIn = regexp.MustCompile(`\{\{-?\s*((?:\{[^{}]*\}|[^{}])*?)\s*\}\}`)
