package convert

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// Options say how to convert policies of another engine.
type Options struct {
	// Kinds are the kinds that the policies may select or read.
	Kinds *kind.Set
	// Enforce lets policies deny where they did. Otherwise they warn.
	Enforce bool
	// Partial converts the parts of a policy that can be converted, and marks what is missing. Otherwise a policy is
	// converted wholly, or left out.
	Partial bool
	// Limits are those of the policies.
	Limits rule.Limits
}

// A Foreign is an object of another policy engine.
type Foreign struct {
	Object map[string]any
	// File is where it comes from.
	File string
	// Line returns the line of a field in the file, 0 if it is not known; nil if none is.
	Line func(field string) int
}

// Ref names the object.
func (f *Foreign) Ref() usher.PolicyRef {
	namespace, name := nameIn(f.Object)
	return usher.PolicyRef{Kind: kindIn(f.Object).Kind, Namespace: namespace, Name: name}
}

// An Import is the outcome for a policy of another engine.
type Import struct {
	// Of is the policy as it was.
	Of *Foreign
	// To are the policies that do the same; none if it was left out.
	To []api.Object
	// Left are the reasons why it was left out, and Notes are differences that users notice.
	Left, Notes []rule.Problem
	// Missing are the reasons why parts of it are missing, and Without names these parts.
	Missing []rule.Problem
	Without []string
}

// Leave records a reason why the policy is left out: something about a field of an object, which may be
// another one than the policy.
func (i *Import) Leave(at *Foreign, field, what, do string) {
	i.Left = append(i.Left, at.problem(rule.Error, field, what, do))
}

// Note records a difference that users notice.
func (i *Import) Note(at *Foreign, field, what, do string) {
	i.Notes = append(i.Notes, at.problem(rule.Warning, field, what, do))
}

// A Mark is how much has been recorded about an import.
type Mark struct{ left, notes int }

// Mark returns how much has been recorded.
func (i *Import) Mark() Mark { return Mark{len(i.Left), len(i.Notes)} }

// Miss reports whether something was left since a mark. Then a part of the policy is missing for these reasons, and what
// was noted about it is forgotten.
func (i *Import) Miss(part string, since Mark) bool {
	if len(i.Left) == since.left {
		return false
	}
	i.Missing = append(i.Missing, i.Left[since.left:]...)
	i.Left, i.Notes = i.Left[:since.left:since.left], i.Notes[:since.notes:since.notes]
	i.Without = append(i.Without, part)
	return true
}

func (f *Foreign) problem(severity rule.Severity, field, what, do string) rule.Problem {
	p := rule.Problem{Policy: f.Ref(), File: f.File, Severity: severity, Field: field, What: what, Do: do}
	if f.Line != nil {
		p.Line = f.Line(field)
	}
	return p
}

// Finish leaves the policy out, unless what it became compiles without an error and there was no other reason. What is
// missing is added to the descriptions of policies.
func (i *Import) Finish(ctx context.Context, limits rule.Limits) {
	if len(i.To) == 0 || len(i.Left) > 0 {
		i.Left = append(i.Left, i.Missing...)
		i.Missing, i.Without = nil, nil
	}
	i.describe()
	for _, o := range i.To {
		if wrong := validation.NameIsDNSSubdomain(o.GetName(), false); len(wrong) > 0 {
			i.Leave(i.Of, "metadata.name", wrong[0], "rename it")
		}
		if wrong := validation.ValidateNamespaceName(o.GetNamespace(), false); o.GetNamespace() != "" && len(wrong) > 0 {
			i.Leave(i.Of, "metadata.namespace", wrong[0], "write the name of a namespace")
		}
		compiled := compile.Options{Limits: limits}.Policy(ctx, api.Policy{Object: o})
		for _, p := range rule.Errors(compiled.Problems) {
			i.Leave(i.Of, "", fmt.Sprintf("%s: %s", p.Field, p.What), p.Do)
		}
	}
	if len(i.Left) > 0 {
		i.To = nil
	}
	rule.SortProblems(i.Left)
	i.Left = slices.CompactFunc(i.Left, func(a, b rule.Problem) bool { return a == b })
}

// mostDescribed is how long descriptions of policies may be in bytes, by their schema.
const mostDescribed = 4096

// cut returns a text of which two are a description.
func cut(text string) string {
	const most, ellipsis = mostDescribed/2 - 2, "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(ellipsis)], "") + ellipsis
}

// describe adds what is missing to the descriptions of policies.
func (i *Import) describe() {
	if len(i.Missing) == 0 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Of %s is missing:", i.Of.Ref())
	for _, p := range i.Missing {
		b.WriteString("\n* ")
		if p.Policy != i.Of.Ref() {
			fmt.Fprintf(&b, "%s: ", p.Policy)
		}
		fmt.Fprintf(&b, "%s: %s", p.Field, p.What)
	}
	missing := cut(b.String())
	for _, o := range i.To {
		spec := specOf(o)
		if description := strings.TrimSpace(spec.Description); description == "" {
			spec.Description = missing
		} else {
			spec.Description = cut(description) + "\n\n" + missing
		}
	}
}

// specOf returns the spec of an object policy.
func specOf(o api.Object) *v1alpha1.ObjectPolicySpec {
	switch o := o.(type) {
	case *v1alpha1.ClusterObjectPolicy:
		return &o.Spec.ObjectPolicySpec
	case *v1alpha1.ObjectPolicy:
		return &o.Spec
	}
	return &v1alpha1.ObjectPolicySpec{}
}
