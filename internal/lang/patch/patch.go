// Package patch compiles plaintext overriders: operations in the manner of JSON patch,
// written down in the policy.
package patch

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// Compile returns the program that makes the operations of entries, as one patch. Fields
// of problems are relative to the overriders, such as plaintext[0].path.
//
// The program is never nil. If an entry has an Error problem, it always fails. An entry with a
// Warning is part of the patch as written; it may fail when it is applied.
func Compile(entries []v1alpha1.PlaintextOverrider) (rule.Program, []rule.Problem) {
	p := &program{patch: make(usher.Patch, 0, len(entries))}
	var problems []rule.Problem
	for i := range entries {
		op, found := compile(&entries[i])
		for _, problem := range found {
			problem.Field = fmt.Sprintf("plaintext[%d].%s", i, problem.Field)
			problems = append(problems, problem)
			if problem.Severity == rule.Error && p.err == nil {
				p.err = fmt.Errorf("%s: %s", problem.Field, problem.What)
			}
		}
		p.patch = append(p.patch, op)
		p.reads.AddPointer(op.Path)
	}
	return p, problems
}

func compile(entry *v1alpha1.PlaintextOverrider) (usher.PatchOp, []rule.Problem) {
	op := usher.PatchOp{Op: string(entry.Operator), Path: entry.Path}
	var problems []rule.Problem
	switch entry.Operator {
	case v1alpha1.OperatorAdd, v1alpha1.OperatorReplace:
		value, err := decode(entry.Value)
		if err != nil {
			problems = append(problems, rule.Problem{Severity: rule.Error, Field: "value",
				What: "the value is not JSON: " + err.Error(), Do: "write one JSON value, with strings in quotes"})
		}
		if entry.Value == nil {
			problems = append(problems, rule.Problem{Severity: rule.Warning, Field: "value",
				What: "no value is set: the field becomes null, which API servers drop", Do: "set value, or use remove"})
		}
		op.Value = value
	case v1alpha1.OperatorRemove:
	default:
		problems = append(problems, rule.Problem{Severity: rule.Error, Field: "op",
			What: fmt.Sprintf("Unexpected kind: %s", entry.Operator), Do: "use add, remove or replace"})
	}
	return op, append(problems, checkPath(op)...)
}

// checkPath only warns: whether a path works depends on the object.
func checkPath(op usher.PatchOp) []rule.Problem {
	warn := func(what, do string) []rule.Problem {
		return []rule.Problem{{Severity: rule.Warning, Field: "path", What: what, Do: do}}
	}
	if op.Path == "" {
		if _, object := op.Value.(map[string]any); op.Op == "replace" && object {
			return nil
		}
		return warn("the empty path is the whole object, which can only be replaced, by an object: the operation fails on every request",
			"write the path of a field, such as /metadata/labels/team")
	}
	head, rest, ok := strings.Cut(op.Path, "/")
	switch {
	case !ok:
		return warn(fmt.Sprintf("the path %q has no slash and leads nowhere: the operation fails on every request", op.Path),
			fmt.Sprintf("write %q", "/"+strings.ReplaceAll(op.Path, ".", "/")))
	case head != "":
		return warn(fmt.Sprintf("the path does not begin with a slash: %q does not count, and the path means %q", head, "/"+rest),
			fmt.Sprintf("write %q", "/"+op.Path))
	}
	if i := badEscape(op.Path); i >= 0 {
		return warn(fmt.Sprintf("the ~ in %q is not followed by 0 or 1 and is taken literally", op.Path[i:]),
			"write ~0 for ~ and ~1 for / inside of a key")
	}
	return nil
}

// badEscape returns where a tilde stands that escapes nothing, or -1.
func badEscape(path string) int {
	for i := range len(path) {
		if path[i] == '~' && (i+1 == len(path) || path[i+1] != '0' && path[i+1] != '1') {
			return i
		}
	}
	return -1
}

// decode reads a value; none is null.
func decode(value *apiextensionsv1.JSON) (any, error) {
	if value == nil || len(bytes.TrimSpace(value.Raw)) == 0 {
		return nil, nil
	}
	var tree any
	if err := json.Unmarshal(value.Raw, &tree); err != nil {
		return nil, err
	}
	return tree, nil
}

type program struct {
	patch usher.Patch
	err   error
	reads usher.Paths
}

// ReadPaths implements [rule.Selective]: the paths that are patched.
func (p *program) ReadPaths() (object, old *usher.Paths) { return &p.reads, nil }

// Pointers returns the paths that are patched.
func (p *program) Pointers() []string {
	pointers := make([]string, len(p.patch))
	for i := range p.patch {
		pointers[i] = p.patch[i].Path
	}
	return pointers
}

// fewOperations is how many are applied in a moment: each may move a long list.
const fewOperations = 16

// Brief implements [rule.Brief].
func (p *program) Brief() bool { return len(p.patch) <= fewOperations }

// Run returns the patch, which is the same for every input.
func (p *program) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	if p.err != nil {
		return rule.Outcome{}, p.err
	}
	return rule.Outcome{Patch: p.patch}, nil
}

// DependsOn implements [rule.Dependent].
func (p *program) DependsOn(usher.Operation) rule.Dependencies { return 0 }

func (p *program) String() string {
	ops := make([]string, len(p.patch))
	for i, op := range p.patch {
		ops[i] = op.Op + " " + op.Path
	}
	return strings.Join(ops, ", ")
}
