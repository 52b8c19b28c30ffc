package cue

import (
	"fmt"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cue/internal/number"
	"github.com/usher-dev/usher/internal/rule"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/cuecontext"
)

// A native is a source as CUE's own evaluator has it. Nothing of it can be stopped or bounded:
// it belongs into a worker.
type native struct {
	form    Form
	context *cue.Context
	value   cue.Value
	// fetches means that the source may have a processing.http block.
	fetches bool
}

// check returns all that is wrong with a source, and the source for the evaluator if nothing
// of it is an error.
func check(source string, form Form) (*native, []rule.Problem) {
	c := &compilation{source: source, form: form}
	file := c.parse(source)
	if file == nil {
		return nil, c.problems
	}
	c.advise(file, source)
	c.importsExist(file)
	n := c.build(file)
	if c.failed() {
		return nil, c.problems
	}
	return n, c.problems
}

// nativeOf returns a source that has been checked for the evaluator.
func nativeOf(source string, form Form) (*native, error) {
	c := &compilation{source: source, form: form}
	if file := c.parse(source); file != nil {
		n := c.build(file)
		if n != nil && !c.failed() {
			return n, nil
		}
	}
	return nil, fmt.Errorf("compile it again: %s", c.problems[0].Text())
}

// build gives a file to the evaluator, and checks it by evaluating it.
func (c *compilation) build(file *ast.File) *native {
	n := &native{form: c.form, context: newContext(), fetches: mayDefine(file.Decls, processing)}
	if !c.keepListArithmetic(file) {
		return nil
	}
	if err := astutil.SanitizeFiles([]*ast.File{file}); err != nil {
		c.cueErrors(err)
		return nil
	}
	n.value = n.context.BuildFile(file)
	if err := n.value.Validate(); err != nil {
		c.cueErrors(err)
	}
	return n
}

// newContext returns a context without structure sharing, with which v0.17.1 loses
// fields of values that come from Go.
func newContext() *cue.Context { return cuecontext.New(cuecontext.CUE_DEBUG("sharing=0")) }

// run evaluates the source on its input, the parameters by name. If it needs an HTTP request first,
// and output, the response, is nil, it returns that request.
func (n *native) run(input map[string]any, output any) (rule.Outcome, *fact.HTTP, error) {
	value := n.value
	for _, name := range n.form.params() {
		if given, ok := input[name]; ok {
			value = value.FillPath(cue.MakePath(cue.Str(name)), n.context.Encode(encodable(given)))
		}
	}
	// An error anywhere is an error, as the original has it, even where nothing depends on it.
	if err := validate(value); err != nil {
		return rule.Outcome{}, nil, err
	}
	if block := value.LookupPath(cue.MakePath(cue.Str(processing), cue.Str("http"))); n.fetches && block.Exists() {
		if output == nil {
			request, err := requestIn(block)
			if err != nil {
				return rule.Outcome{}, nil, fmt.Errorf("fail to exec http task, %w", err)
			}
			return rule.Outcome{}, request, nil
		}
		value = value.FillPath(cue.MakePath(cue.Str(processing), cue.Str("output")), n.context.Encode(encodable(output)))
		if err := validate(value); err != nil {
			return rule.Outcome{}, nil, err
		}
	}
	outcome, err := n.outcome(value)
	return outcome, nil, err
}

// encodable converts the numbers of a JSON tree to those of CUE, in place.
func encodable(tree any) any {
	switch v := tree.(type) {
	case float64:
		return number.Decode(v)
	case []any:
		for i := range v {
			v[i] = encodable(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = encodable(v[name])
		}
	}
	return tree
}
