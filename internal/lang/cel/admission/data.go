package admission

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// A Data is a value that expressions read as data.NAME.
type Data struct {
	Name string
	// Kind is that of the object, or of the objects if it is a List; empty if the value has none.
	Kind schema.GroupVersionKind
	List bool
	// NameExpression, unless empty, makes the name of the object, and NamespaceExpression the namespace.
	// They see object, oldObject, request and namespaceObject, and nothing that has itself been read for
	// the policy. List says where the expressions are.
	NameExpression, NamespaceExpression string
	// Whole says that Load reads the object of the request, and DependsOn on what else its value
	// depends.
	Whole     bool
	DependsOn rule.Dependencies
	// Load returns the value for a request. The error is [*fact.Missing], or that of the fact.
	Load func(in *Input, at Address) (any, error)
}

// An Address has the values of the expressions of a source of data. Each may be empty, and otherwise is
// one that objects can have.
type Address struct{ Namespace, Name string }

// The fields with these expressions, and those of a source of data that has both.
const (
	nameExpression      = "nameExpression"
	namespaceExpression = "namespaceExpression"
)

// field is the path of an expression of source i.
func (d *Data) field(i int, name string) string {
	of := "object"
	if d.List {
		of = "list"
	}
	return fmt.Sprintf("spec.data[%d].%s.%s", i, of, name)
}

// isAddressing reports whether a field has such an expression.
func isAddressing(field string) bool {
	return strings.HasSuffix(field, "."+nameExpression) || strings.HasSuffix(field, "."+namespaceExpression)
}

// An addressing has the expressions of a source of data.
type addressing struct{ namespace, name expression }

// longestName is how long the name of an object may be.
const longestName = 253

// data compiles the name expressions of p, and declares the variable data.
func (c *compilation) data(p *Program) {
	if !c.declared.data {
		return
	}
	sources := map[string]cel.Measure{}
	for i := range p.source.Data {
		d := &p.source.Data[i]
		p.data = append(p.data, addressing{
			namespace: c.addressing(d.field(i, namespaceExpression), d.NamespaceExpression),
			name:      c.addressing(d.field(i, nameExpression), d.NameExpression),
		})
		p.names = append(p.names, d.Name)
		sources[d.Name] = cel.Input()
	}
	for _, name := range p.names {
		c.environments.data.Fields[name] = required(name, apiservercel.DynType)
	}
	// Each source is read as a whole at most, and all of them count as what is read.
	c.measures[dataName] = cel.Fields(sources)
	c.into(&c.limits.variables)
}

// addressing compiles an expression that makes a part of an address, if there is one.
func (c *compilation) addressing(field, text string) expression {
	if text == "" {
		return expression{}
	}
	before := c.declared
	c.declared = declared{}
	compiled, _ := c.compile(field, text, types.StringType, types.DynType)
	c.declared = before
	return compiled
}

// A datum is a source of data that has been read for a request.
type datum struct {
	known bool
	value any
	err   error
}

// dataView is the variable data. A source is read when an expression selects it.
func (a *activation) dataView() *cel.Record {
	return &cel.Record{Names: a.program.names, Field: func(name string) (any, bool) {
		i := a.program.source.indexOf(name)
		if i < 0 {
			return nil, false
		}
		value, err := a.in.load(a.program, i)
		if err == nil {
			return value, true
		}
		if missing, ok := errors.AsType[*fact.Missing](err); ok {
			a.end(missing)
		}
		return types.NewErr("data.%s: %v", name, err), true
	}}
}

// indexOf returns the index of a source of data, -1 if there is none.
func (s *Code) indexOf(name string) int {
	for i := range s.Data {
		if s.Data[i].Name == name {
			return i
		}
	}
	return -1
}

// load returns the value of a source of data.
func (in *Input) load(p *Program, i int) (any, error) {
	if in.dataOf != p || in.data == nil {
		in.data, in.dataOf = make([]datum, len(p.data)), p
	}
	if d := &in.data[i]; d.known {
		return d.value, d.err
	}
	at, err := in.addressOf(p, i)
	var value any
	if err == nil {
		value, err = p.source.Data[i].Load(in, at)
	}
	if _, missing := errors.AsType[*fact.Missing](err); !missing {
		in.data[i] = datum{known: true, value: value, err: err}
	}
	return value, err
}

// because is the error of an expression: first the object that does not exist, if it fails for lack of that.
// The name of this object is in quotes, as what may be a value of the request, unless the policy has it.
func (in *Input) because(p *Program, expression string, err error) *apiservercel.Error {
	for i := range in.data {
		if in.dataOf != p {
			break
		}
		absent, ok := errors.AsType[*fact.NotFound](in.data[i].err)
		source := &p.source.Data[i]
		if !ok || !strings.HasSuffix(err.Error(), "data."+source.Name+": "+in.data[i].err.Error()) || !strings.HasSuffix(err.Error(), absent.Error()) {
			continue
		}
		name := absent.Name
		if source.NameExpression != "" || source.NamespaceExpression != "" {
			name = strconv.Quote(name)
		}
		because := invalid("data.%s: %s %s does not exist (in expression '%s')", source.Name, absent.Kind, name, expression)
		because.Cause = absent
		return because
	}
	return invalid("expression '%v' resulted in error: %v", expression, err)
}

// addressOf evaluates the expressions of a source of data.
func (in *Input) addressOf(p *Program, i int) (at Address, err error) {
	if at.Namespace, err = in.named(p, &p.data[i].namespace, namespaceExpression, CheckNamespace); err == nil {
		at.Name, err = in.named(p, &p.data[i].name, nameExpression, CheckName)
	}
	return at, err
}

// named evaluates the expression of a field that makes a name, which is checked unless it is empty.
func (in *Input) named(p *Program, e *expression, field string, check func(string) error) (string, error) {
	switch {
	case e.err != nil:
		return "", e.err
	case e.text == "":
		return "", nil
	}
	a := in.naming(p)
	defer a.meter.Release()
	// It is evaluated without the budget of other expressions, and so has one of its own.
	programs := p.counted()
	if programs == nil {
		return "", errUncounted
	}
	value, _, err := programs[e.index].Eval(a)
	switch {
	case a.stop != nil:
		return "", a.stop
	case err != nil:
		return "", fmt.Errorf("%s '%s' resulted in error: %w", field, inLine(e.text), err)
	}
	name, ok := value.(types.String)
	if !ok {
		return "", fmt.Errorf("%s '%s' is no string", field, inLine(e.text))
	}
	if err := check(string(name)); err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return string(name), nil
}

// naming is what these expressions see.
func (in *Input) naming(p *Program) *activation {
	a := &activation{in: in, program: p, has: withNamespace}
	a.variables.program, a.variables.activation = p, a
	a.meter.Allowance = in.Allowance
	a.meter.Context = in.context //nolint:fatcontext // it is that of the request
	return a
}

// CheckName returns why no object can have a name. The name is a part of a path: it must not lead
// elsewhere. It may come from the user, and is not repeated if it is long.
func CheckName(name string) error {
	if len(name) > longestName {
		return fmt.Errorf("the name has %d bytes: at most %d are possible", len(name), longestName)
	}
	if whats := content.IsPathSegmentName(name); len(whats) > 0 {
		return fmt.Errorf("the name %q is not possible: it %s", name, strings.Join(whats, ", "))
	}
	return nil
}

// CheckNamespace returns why no namespace can have a name. It says nothing of an empty one.
func CheckNamespace(name string) error {
	if len(name) > longestName {
		return fmt.Errorf("the namespace has %d bytes: at most %d are possible", len(name), content.DNS1123LabelMaxLength)
	}
	if whats := content.IsDNS1123Label(name); len(whats) > 0 && name != "" {
		return fmt.Errorf("the namespace %q is not possible: it %s", name, strings.Join(whats, ", "))
	}
	return nil
}

// addData adds the size of what the expressions read of data. What is not known yet ends the
// evaluation.
func (r *reads) addData(s *cel.Size, in *Input, p *Program) {
	for _, path := range r.Whole(dataName) {
		for i := range p.source.Data {
			if len(path) > 0 && path[0] != p.source.Data[i].Name {
				continue
			}
			value, err := in.load(p, i)
			if err != nil {
				continue
			}
			if tree, ok := value.(map[string]any); ok && len(path) > 1 {
				value = at(tree, path[1:])
			}
			s.Add(value)
		}
	}
}
