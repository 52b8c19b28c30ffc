// Package reference compiles what templates refer to: fields of the object, of the object
// before, of an owner, of another object of the cluster, of an HTTP answer; and constants. It also
// compiles the selectors by which policies and references choose objects.
//
// A [Reference] does no I/O. When it lacks a fact, [Reference.Value] returns *fact.Missing.
package reference

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// ErrNeedsEvaluator is the error of asking something open (see [Reference.Open] and
// [Text.Open]) for its value: only a CUE evaluator can tell.
var ErrNeedsEvaluator = errors.New("needs the CUE evaluator")

// ErrMissing is the error of an interpolation whose field is missing in an object that exists.
var ErrMissing = errors.New("no such field")

// The suffixes distinguish the names in a rendered program for the reference on its right-hand side
// (valueRef) and for the one on its left-hand side (dataRef).
const (
	ValueSuffix = ""
	DataSuffix  = "_d"
)

// A Reference is a compiled v1alpha1.ResourceRefer. It is immutable.
type Reference struct {
	from   v1alpha1.ValueRefFrom
	suffix string
	path   Path
	// load reads the object of the path; nil for current and old.
	load func(in *rule.Input) (any, error)
	// source names that object for String.
	source string
	// kind is that of the object, for k8s; patterns are the texts with placeholders.
	kind     schema.GroupVersionKind
	patterns []pattern
}

// Compile compiles ref. It returns nil and the problems, with fields relative to ref, if that is
// not possible.
func Compile(ref *v1alpha1.ResourceRefer, suffix string) (*Reference, []rule.Problem) {
	if ref == nil {
		return nil, []rule.Problem{wrong("", "the reference is missing", "say from where the value comes, and its path")}
	}
	r := &Reference{from: ref.From, suffix: suffix}
	var problems []rule.Problem
	path, err := ParsePath(ref.Path)
	if err != nil {
		problems = append(problems, wrong("path", err.Error(),
			"write the segments after slashes, such as /metadata/labels/team"))
	}
	r.path = path
	if strings.Contains(ref.Path, "/") && strings.Contains(ref.Path, `["`) {
		problems = append(problems, rule.Problem{Severity: rule.Warning, Field: "path",
			What: `the path has a slash and is split there: ["…"] is not a key in it, and the path finds nothing`,
			Do:   "write all keys after slashes, with ~1 for a slash in a key, such as /metadata/annotations/example.com~1team"})
	}
	switch ref.From {
	case v1alpha1.FromCurrentObject, v1alpha1.FromOldObject:
		r.source = string(ref.From)
	case v1alpha1.FromOwner:
		r.source = "owner"
		r.load = loadOwner
	case v1alpha1.FromK8s:
		object, name, more := compileK8s(ref.K8s)
		r.load, r.source, r.kind, r.patterns = object.load, name, object.gvk(), object.patterns()
		problems = append(problems, more...)
	case v1alpha1.FromHTTP:
		answer, name, more := compileHTTP(ref.Http)
		r.load, r.source, r.patterns = answer.load, name, answer.url.patterns()
		problems = append(problems, more...)
		if len(rule.Errors(problems)) == 0 {
			problems = append(problems, partOfAnswer(ref.Path)...)
		}
	default:
		problems = append(problems, wrong("from", fmt.Sprintf("a value cannot come from %q", ref.From),
			"use current, old, owner, k8s or http"))
	}
	if len(rule.Errors(problems)) > 0 {
		return nil, problems
	}
	return r, problems
}

// partOfAnswer warns of a path into an HTTP answer that begins with no part of one.
func partOfAnswer(path string) []rule.Problem {
	first := strings.TrimPrefix(path, "/")
	if end := strings.IndexAny(first, "/.["); end >= 0 {
		first = first[:end]
	}
	switch first {
	case "", "body", "header", "trailer":
		return nil
	}
	if strings.Contains(first, "{") {
		return nil
	}
	return []rule.Problem{{
		Severity: rule.Warning, Field: "path",
		What: fmt.Sprintf("%q is no part of an HTTP answer, so the path finds nothing", first), Do: "begin it with body, header or trailer",
	}}
}

// Value returns the referenced value. It is not ok when the value, or anything on the way
// to it, does not exist; an explicit null exists. An error may be *fact.Missing.
func (r *Reference) Value(in *rule.Input) (value any, ok bool, err error) {
	if r.path.open != "" {
		return nil, false, ErrNeedsEvaluator
	}
	root, err := r.Root(in)
	if err != nil {
		return nil, false, err
	}
	value, ok = r.path.Value(root)
	return value, ok, nil
}

// Root returns the object that the reference's path leads into, nil if there is none.
func (r *Reference) Root(in *rule.Input) (any, error) {
	switch r.from {
	case v1alpha1.FromCurrentObject:
		return tree(in.Object), nil
	case v1alpha1.FromOldObject:
		return tree(in.OldObject), nil
	case v1alpha1.FromK8s, v1alpha1.FromOwner, v1alpha1.FromHTTP:
	}
	return r.load(in)
}

// Want adds to object and old the paths that the reference reads in Input.Object and in
// Input.OldObject.
func (r *Reference) Want(object, old *usher.Paths) {
	switch r.from {
	case v1alpha1.FromCurrentObject:
		r.path.want(object)
	case v1alpha1.FromOldObject:
		r.path.want(old)
	case v1alpha1.FromOwner:
		object.Add("metadata", "ownerReferences")
		object.Add("metadata", "namespace")
	default:
		// Their texts can refer to anything.
		object.Add()
	}
}

// DependsOn returns on what the value depends besides objects of the request. A nil reference has no
// value.
func (r *Reference) DependsOn() rule.Dependencies {
	if r == nil {
		return 0
	}
	switch r.from {
	case v1alpha1.FromOwner:
		return rule.OnObjects | rule.OnNamespace
	case v1alpha1.FromK8s:
		return rule.OnObjects
	case v1alpha1.FromHTTP:
		return rule.OnHTTP
	case v1alpha1.FromCurrentObject, v1alpha1.FromOldObject:
	}
	return 0
}

// Near reports whether the value is in an object of the request, a few steps away.
func (r *Reference) Near() bool {
	return r.load == nil && r.path.open == "" && len(r.path.text) <= maxInterpolation
}

// Open reports whether the path is CUE beyond a chain of selectors, which only a CUE
// evaluator understands.
func (r *Reference) Open() bool { return r.path.open != "" }

// Expr returns the reference as a CUE expression of a rendered program, which declares object,
// oldObject and [Reference.Declaration].
func (r *Reference) Expr() string {
	switch r.from {
	case v1alpha1.FromCurrentObject:
		return r.path.Expr("object")
	case v1alpha1.FromOldObject:
		return r.path.Expr("oldObject")
	case v1alpha1.FromK8s, v1alpha1.FromOwner, v1alpha1.FromHTTP:
	}
	return r.path.Expr(r.ParamName())
}

// Packages returns which CUE packages an open path uses, as [Text.Packages] does.
func (r *Reference) Packages() []string { return packages(r.path.open) }

// Declaration returns the line by which a rendered program declares the names in [Reference.Expr],
// without a newline; it is empty if object and oldObject are enough.
func (r *Reference) Declaration() string {
	if name := r.ParamName(); name != "" {
		return name + ": data.extraParams." + name
	}
	return ""
}

// Param returns the entry of extraParams that a rendered program needs. The name is empty
// if it needs none. An error may be *fact.Missing.
func (r *Reference) Param(in *rule.Input) (name string, value any, err error) {
	if name = r.ParamName(); name == "" {
		return "", nil, nil
	}
	value, err = r.Root(in)
	return name, value, err
}

// String is the reference in one stable line, without credentials.
func (r *Reference) String() string { return r.source + " " + r.path.String() }

// ParamName returns the name of the entry that [Reference.Param] returns.
func (r *Reference) ParamName() string {
	switch r.from {
	case v1alpha1.FromOwner, v1alpha1.FromK8s:
		return "otherObject" + r.suffix
	case v1alpha1.FromHTTP:
		return "http" + r.suffix
	case v1alpha1.FromCurrentObject, v1alpha1.FromOldObject:
	}
	return ""
}

// tree keeps an absent object from becoming a non-nil interface.
func tree(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}

// resolve returns a fact, and nil rather than a typed nil for one that is absent.
func resolve(in *rule.Input, ref fact.Ref) (any, error) {
	value, err := in.Facts.Value(ref)
	if err != nil {
		return nil, err
	}
	if object, ok := value.(map[string]any); ok {
		return tree(object), nil
	}
	return value, nil
}

func wrong(field, what, do string) rule.Problem {
	return rule.Problem{Severity: rule.Error, Field: field, What: what, Do: do}
}
