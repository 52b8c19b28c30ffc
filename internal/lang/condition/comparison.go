package condition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// A comparison is a condition: it hits when data stands in the relation cond to the
// right-hand side, which is value if that is not nil, and otherwise constant or members.
type comparison struct {
	mode     v1alpha1.AffectMode
	operator operator
	data     *reference.Reference
	value    *reference.Reference
	constant *operand
	members  []operand
	process  *process
	// processed is constant after process, nil if that has to wait for a request.
	processed any
	message   reference.Text
	// object and old are the paths that the condition reads.
	object, old usher.Paths
	brief       bool
}

// fewMembers is how many members are compared in a moment.
const fewMembers = 64

// maxMembers limits members with interpolations together, in bytes.
const maxMembers = 4 << 20

func compileComparison(c *v1alpha1.ValidateCondition) (check, []rule.Problem) {
	const field = "template.condition"
	var found collector
	k := &comparison{mode: c.AffectMode, message: reference.ParseText(c.Message)}
	switch c.AffectMode {
	case "":
		k.mode = v1alpha1.AffectReject
	case v1alpha1.AffectReject, v1alpha1.AffectAllow:
	default:
		found.wrong(field+".affectMode", fmt.Sprintf("unknown affectMode %q", c.AffectMode), "use reject or allow")
	}
	if c.DataRef == nil {
		found.wrong(field+".dataRef", "the condition has no dataRef", "say which value the condition is about")
	} else {
		k.data = found.reference(field+".dataRef", c.DataRef, reference.DataSuffix)
	}
	k.compileOperator(field, c, &found)
	if found.failed() {
		return nil, found.problems
	}
	k.want()
	k.brief = k.isBrief()
	return k, found.problems
}

// compileOperator compiles cond and its right-hand side.
func (c *comparison) compileOperator(field string, source *v1alpha1.ValidateCondition, found *collector) {
	var err error
	if c.operator, err = operatorOf(source.Cond); err != nil {
		found.wrong(field+".cond", fmt.Sprintf("unknown cond %q", source.Cond), err.Error())
		return
	}
	switch c.operator.takes {
	case nothing:
		if source.Value != nil || source.ValueRef != nil || source.ValueProcess != nil {
			found.warn(field, fmt.Sprintf("%s compares with nothing: value, valueRef and valueProcess do not count", source.Cond), "remove them")
		}
	case oneValue:
		c.compileRight(field, source, found)
	case severalValues:
		c.compileMembers(field, source, found)
	}
}

// want determines the paths that the condition reads.
func (c *comparison) want() {
	for _, r := range []*reference.Reference{c.data, c.value} {
		if r != nil {
			r.Want(&c.object, &c.old)
		}
	}
	if c.constant != nil {
		c.constant.text.Want(&c.object, &c.old)
	}
	for i := range c.members {
		c.members[i].text.Want(&c.object, &c.old)
	}
	c.message.Want(&c.object, &c.old)
}

// ReadPaths implements [rule.Selective].
func (c *comparison) ReadPaths() (object, old *usher.Paths) { return &c.object, &c.old }

// compileMembers compiles the right-hand side of In and NotIn.
func (c *comparison) compileMembers(field string, source *v1alpha1.ValidateCondition, found *collector) {
	if source.ValueRef != nil {
		found.wrong(field+".valueRef", fmt.Sprintf("%s cannot compare with a reference", source.Cond),
			"list the values in value: stringSlice, integerSlice or floatSlice")
		return
	}
	if source.ValueProcess != nil {
		found.warn(field+".valueProcess", fmt.Sprintf("%s does no arithmetic: valueProcess does not count", source.Cond), "remove it")
	}
	constant, _ := reference.Constant(source.Value)
	switch list := constant.(type) {
	case []string:
		for _, text := range list {
			c.members = append(c.members, textOperand(text))
		}
	case []int64:
		for _, n := range list {
			c.members = append(c.members, intOperand(n))
		}
	case []v1alpha1.Float64:
		for _, text := range list {
			c.members = append(c.members, textOperand(string(text)))
		}
	default:
		found.wrong(field+".value", fmt.Sprintf("%s needs a list of values", source.Cond), "set stringSlice, integerSlice or floatSlice")
	}
}

// compileRight compiles the right-hand side of the other comparisons.
func (c *comparison) compileRight(field string, source *v1alpha1.ValidateCondition, found *collector) {
	if source.ValueProcess != nil {
		c.process = compileProcess(field+".valueProcess", source.ValueProcess, found)
	}
	if source.ValueRef != nil {
		if source.Value != nil {
			found.warn(field+".value", "valueRef is set too: value does not count", "remove one of them")
		}
		c.value = found.reference(field+".valueRef", source.ValueRef, reference.ValueSuffix)
		return
	}
	constant, ok := reference.Constant(source.Value)
	if !ok {
		found.wrong(field+".value", fmt.Sprintf("%s has nothing to compare with", source.Cond), "set value or valueRef")
		return
	}
	operand, err := scalarOperand(constant)
	if err != nil {
		found.wrong(field+".value", fmt.Sprintf("%s: %v", source.Cond, err), "set string, integer, float or boolean")
		return
	}
	c.constant = &operand
	if c.process != nil && operand.value != nil {
		// What fails here fails at every request, but only there, as it always has.
		c.processed, _ = c.process.apply(operand.value)
	}
	switch constant.(type) {
	case bool:
		if source.Cond != v1alpha1.CondEqual && source.Cond != v1alpha1.CondNotEqual || c.process != nil {
			found.mistake(field+".value", "a boolean is neither more nor less than anything: the comparison fails", "use Equal or NotEqual without valueProcess")
		}
	case string:
		if c.process != nil {
			found.mistake(field+".valueProcess", "arithmetic on a string fails", "set integer or float")
		}
	}
}

// Brief implements [rule.Brief].
func (c *comparison) Brief() bool { return c.brief }

// isBrief reports whether one value of an object is compared with constants: to compare two values of objects, or to
// make texts of them, takes time for each byte that they have.
func (c *comparison) isBrief() bool {
	if !c.data.Near() || c.value != nil || !c.message.Short() || len(c.members) > fewMembers || c.process != nil && c.processed == nil {
		return false
	}
	if c.constant != nil && !c.constant.fixed() {
		return false
	}
	return !slices.ContainsFunc(c.members, func(o operand) bool { return !o.fixed() })
}

// Run rejects by the affect mode and by whether the condition hits.
func (c *comparison) Run(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	hit, err := c.hits(in)
	if err != nil {
		return rule.Outcome{}, err
	}
	message := ""
	if hit {
		if message, err = c.message.Value(in); err != nil {
			return rule.Outcome{}, fmt.Errorf("write message: %w", err)
		}
	}
	switch {
	case c.mode == v1alpha1.AffectAllow:
		return allowHit(hit, &c.message, in), nil
	case hit:
		return rule.Outcome{Verdict: usher.Deny, Message: message}, nil
	}
	return rule.Outcome{}, nil
}

// DependsOn implements [rule.Dependent].
func (c *comparison) DependsOn(usher.Operation) rule.Dependencies {
	return c.data.DependsOn() | c.value.DependsOn()
}

// allowHit is the outcome in affect mode allow: everything but a hit is rejected. The message
// then is a note, since kinitiras rejects without one. If the text cannot be written, there
// is no note: the request is rejected nevertheless.
func allowHit(hit bool, text *reference.Text, in *rule.Input) rule.Outcome {
	if hit {
		return rule.Outcome{}
	}
	note, err := text.Value(in)
	if err != nil {
		note = ""
	}
	return rule.Outcome{Verdict: usher.Deny, Note: note}
}

func (c *comparison) hits(in *rule.Input) (bool, error) {
	right, comparable := any(nil), true
	if c.value != nil {
		var err error
		if right, comparable, err = c.value.Value(in); err != nil {
			return false, err
		}
	}
	data, exists, err := c.data.Value(in)
	if err != nil {
		return false, err
	}
	if !exists {
		data = absent{}
	}
	switch {
	case c.operator.takes == nothing:
	case !exists || !comparable:
		return false, nil
	case c.operator.takes == severalValues:
		right, err = c.list(in)
	case c.processed != nil:
		right = c.processed
	default:
		right, err = c.right(right, in)
	}
	if err != nil {
		return false, err
	}
	hit, err := c.operator.holds(data, right)
	if err != nil {
		return false, fmt.Errorf("compare %s: %w", c.data, err)
	}
	return hit, nil
}

// Explain implements [rule.Explainer].
func (c *comparison) Explain(in *rule.Input) (rule.Reading, error) {
	reading := rule.Reading{Condition: c.String()}
	for _, r := range []*reference.Reference{c.data, c.value} {
		if r == nil {
			continue
		}
		value, err := valueOf(r, in)
		if err != nil {
			return reading, err
		}
		reading.Values = append(reading.Values, value)
	}
	var err error
	reading.Holds, err = c.hits(in)
	return reading, err
}

func valueOf(r *reference.Reference, in *rule.Input) (rule.Value, error) {
	value, exists, err := r.Value(in)
	return rule.Value{Name: r.String(), Value: value, Absent: !exists}, err
}

// right is the right-hand side: the constant, if there is one, or else value, processed.
func (c *comparison) right(value any, in *rule.Input) (any, error) {
	if c.constant != nil {
		var err error
		if value, err = c.constant.valueIn(in); err != nil {
			return nil, err
		}
	}
	if c.process == nil {
		return value, nil
	}
	processed, err := c.process.apply(value)
	if err != nil {
		return nil, fmt.Errorf("process value: %w", err)
	}
	return processed, nil
}

// list is the right-hand side of an operator with several values. A member that refers to a missing
// field is equal to nothing, so it is left out.
func (c *comparison) list(in *rule.Input) (any, error) {
	members := make([]any, 0, len(c.members))
	size := 0
	for i := range c.members {
		member, err := c.members[i].valueIn(in)
		if errors.Is(err, reference.ErrMissing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if text, ok := member.(string); ok && !c.members[i].fixed() {
			if size += len(text); size > maxMembers {
				return nil, fmt.Errorf("the values to compare with are longer than %d bytes together", maxMembers)
			}
		}
		members = append(members, member)
	}
	return members, nil
}

// String is the condition in one line.
func (c *comparison) String() string {
	right := ""
	switch {
	case c.value != nil:
		right = c.value.String()
	case c.constant != nil:
		right = c.constant.expr()
	case c.members != nil:
		right = list(c.members)
	}
	if c.process != nil {
		right += " " + c.process.op + " " + c.process.text
	}
	if right != "" {
		right = " " + right
	}
	return fmt.Sprintf("%s if %s %s%s", c.mode, c.data, c.operator.cond, right)
}

func (c *comparison) params(in *rule.Input) (map[string]any, error) {
	return params(in, c.value, c.data)
}

func (c *comparison) open() bool {
	if c.data.Open() || c.value != nil && c.value.Open() || c.message.Open() || c.constant != nil && c.constant.text.Open() {
		return true
	}
	for i := range c.members {
		if c.members[i].text.Open() {
			return true
		}
	}
	return false
}
