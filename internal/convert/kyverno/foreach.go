package kyverno

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/expression"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// textOf returns the text of a rule.
func textOf(raw any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(raw) != nil {
		return ""
	}
	return b.String()
}

// foreach returns a term that holds if all elements of all lists pass.
func (j *judge) foreach(loops []syntax.Foreach, nesting int) (term, error) {
	passes := yes
	for n := range loops {
		one, err := j.loop(&loops[n], nesting)
		if err != nil {
			return no, err
		}
		passes = all(passes, one)
	}
	return passes, nil
}

func (j *judge) loop(f *syntax.Foreach, nesting int) (term, error) {
	list, err := j.scope.Elements(f.List)
	if err != nil {
		return no, placed(f.Field+".list", err)
	}
	name := j.scope.ElementName(lastName(f.List))
	outer := j.scope
	defer func() { j.scope = outer }()
	element, index := expression.Named(name, list.Type.Item()), "index"
	if nesting > 0 {
		index = fmt.Sprintf("index%d", nesting)
	}
	at := expression.Named(index, expression.Type{Kind: expression.Integer})
	j.scope = outer.Taking(name).Taking(index).With("element", element).With("elementIndex", at).
		With(fmt.Sprintf("element%d", nesting), element).With(fmt.Sprintf("elementIndex%d", nesting), at)
	if len(f.Context) > 0 {
		if err := j.elementContext(f.Context); err != nil {
			return no, err
		}
	}
	applies := yes
	if f.Preconditions != nil {
		v, err := j.scope.Lenient().Conditions(f.Preconditions)
		if err != nil {
			return no, placed(f.Preconditions.Field, err)
		}
		applies = termOf(v)
	}
	ok, err := j.element(f, element, nesting)
	if err != nil {
		return no, err
	}
	if element.Type.Kind == expression.Any {
		if strings.Contains(textOf(j.r.Raw), "element.") {
			j.note(f.Field+".list", "what its elements are is not known: a field of one that is no map is an error, where Kyverno reads null", "")
		}
		of := name
		if strings.HasSuffix(list.Text, ".flatten()") {
			// Otherwise its elements would have the type of null.
			of = "dyn(" + name + ")"
		}
		applies = all(compare(of, "!=", "null"), applies)
	}
	body := when(applies, ok, yes)
	if body == yes {
		return yes, nil
	}
	if strings.Contains(body.text, index) {
		return call(list.Postfix() + ".all(" + index + ", " + name + ", " + body.text + ")"), nil
	}
	return call(list.Postfix() + ".all(" + name + ", " + body.text + ")"), nil
}

// element returns a term that holds if an element passes.
func (j *judge) element(f *syntax.Foreach, element expression.Value, nesting int) (term, error) {
	switch {
	case f.Deny != nil && (f.Deny.Conditions == nil || len(f.Deny.Conditions.All) == 0 && f.Deny.Conditions.Any == nil):
		return no, nil
	case f.Deny != nil:
		denied, err := j.scope.Conditions(f.Deny.Conditions)
		if err != nil {
			return no, placed(f.Deny.Conditions.Field, err)
		}
		return not(termOf(denied)), nil
	case f.Pattern == nil && f.AnyPattern == nil:
		return j.foreach(f.Foreach, nesting+1)
	}
	if f.ElementScope != nil && !*f.ElementScope {
		return no, refuse(f.Field+".elementScope", "its pattern is for the whole object", "write it as a rule of its own")
	}
	of := shape{kinds: j.Kinds, of: element.Type.Schemas()}
	if element.Type.Kind != expression.Map {
		return no, refuse(f.Field+".list", "a pattern is for elements that may not be maps", "write conditions")
	}
	return j.fits(f.Pattern, f.AnyPattern, element.Text, of, []string{element.Text})
}

// lastName is the last name in an expression.
func lastName(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// elementContext adds the variables of an element: what is written in their place is their expression.
func (j *judge) elementContext(entries []syntax.Entry) error {
	for n := range entries {
		e := &entries[n]
		if call := e.APICall; call != nil && !strings.Contains(call.URLPath[:max(0, strings.LastIndexByte(call.URLPath, '/'))], "element") {
			v, err := source{judge: j, e: e, inline: true}.apiCall()
			if err != nil {
				return err
			}
			j.scope = j.scope.With(e.Name, v)
			continue
		}
		if m := e.ConfigMap; m != nil && !strings.Contains(m.Name+m.Namespace, "element") {
			v, err := source{judge: j, e: e, inline: true}.configMap()
			if err != nil {
				return err
			}
			j.scope = j.scope.With(e.Name, v)
			continue
		}
		if e.ImageRegistry != nil {
			return asksRegistry(e)
		}
		if e.Variable == nil {
			return refuse(e.Field, "data that depends on an element of a list is not read", "read all objects with data.list, and select those of the element")
		}
		v, err := j.entry(e)
		if err != nil {
			return err
		}
		j.scope = j.scope.With(e.Name, v)
	}
	return nil
}

func asksRegistry(e *syntax.Entry) error {
	return refuse(e.Field+".imageRegistry", "it asks a registry", "check images where they are built")
}

// context adds the variables of a rule.
func (j *judge) context(entries []syntax.Entry) {
	for n := range entries {
		e := &entries[n]
		var v expression.Value
		var err error
		switch {
		case e.Variable != nil:
			v, err = j.entry(e)
			if err == nil && !v.IsConstant && !v.IsShort() {
				v = j.named(e.Name, v)
			}
		case e.ConfigMap != nil:
			v, err = source{judge: j, e: e}.configMap()
		case e.APICall != nil:
			v, err = source{judge: j, e: e}.apiCall()
		case e.ImageRegistry != nil:
			err = asksRegistry(e)
		default:
			err = refuse(e.Field, "it is neither a variable nor an object", "write it as data of a ClusterObjectPolicy")
		}
		if err != nil {
			// What nothing reads is not loaded.
			j.scope = j.scope.Without(e.Name, reason(err))
			continue
		}
		j.scope = j.scope.With(e.Name, v)
	}
}

// reason returns an error as one of expressions.
func reason(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return &expression.Error{What: r.field + ": " + r.what, Do: r.do}
	}
	return err
}

// named returns a value that is a variable of the policy.
func (j *judge) named(name string, v expression.Value) expression.Value {
	as := camel(name)
	for n := 2; slices.ContainsFunc(j.p.variables, func(o variable) bool { return o.Name == as+j.suffix && o.Expression != v.Text }); n++ {
		as = fmt.Sprintf("%s%d", camel(name), n)
	}
	j.variable(as+j.suffix, v.Text)
	return v.As("variables." + as + j.suffix)
}

// entry returns the value of a variable.
func (j *judge) entry(e *syntax.Entry) (expression.Value, error) {
	v, err := j.scope.Variable(e.Variable)
	if err != nil {
		return v, placed(e.Field+".variable", err)
	}
	return v, nil
}
