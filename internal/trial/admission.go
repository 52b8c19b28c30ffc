package trial

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
	"github.com/usher-dev/usher/internal/rule"
)

// mostTargets limits the kinds that an admission policy is tried on: one for more kinds is tried on the
// usual ones.
const mostTargets = 10

// isUsual reports whether a kind is one that most clusters have many objects of.
func isUsual(of typecheck.Target) bool {
	return slices.Contains(usual, of.Kind.Kind) && !strings.Contains(of.Resource.Resource, "/") &&
		slices.Contains([]string{"", "apps", "networking.k8s.io"}, of.Kind.Group)
}

// tryAdmission tries an admission policy on the kinds of its constraints, as if a binding put it into
// force for all of them. What reads parameters cannot be tried without them.
func (t *Trial) tryAdmission(ctx context.Context, set *kind.Set, c *compile.Compiled, words words, slowest *Slowest) []rule.Problem {
	p := c.Typed()
	targets, _ := targetsOf(set, p.Matches())
	targets = slices.DeleteFunc(targets, func(of typecheck.Target) bool { return neverSeen(set, c, of) })
	broad := len(targets) > mostTargets
	if broad {
		targets = slices.DeleteFunc(targets, func(of typecheck.Target) bool { return !isUsual(of) })
	}
	if len(targets) == 0 || !p.Params().Empty() {
		return nil
	}
	var problems []rule.Problem
	about := explained{slowest: slowest, targets: targets, broad: broad, selects: !readsNamespace(p), depends: dependsOnUsers(p), refuses: forSomeUsers(c)}
	for _, r := range p.Unbound() {
		t.free(&r, p, targets)
		if never := neverEqual(set, &r); len(never) > 0 {
			return never
		}
		problems = append(problems, t.tryRule(ctx, set, &r, words, about)...)
	}
	if len(problems) == 0 {
		problems = t.tryParamless(ctx, set, p, words, about)
	}
	if len(problems) == 0 {
		problems = t.tryData(ctx, set, c, words, about)
	}
	return problems
}

// forSomeUsers reports whether a policy says for which users it is. It is tried as if it were for all.
func forSomeUsers(c *compile.Compiled) bool {
	spec := c.ObjectSpec()
	return spec != nil && len(spec.Subjects)+len(spec.ExcludeSubjects) > 0
}

// neverSeen reports whether a policy is of a namespace, and never acts on objects of a kind.
func neverSeen(set *kind.Set, c *compile.Compiled, of typecheck.Target) bool {
	return c.Ref.Namespace != "" && (set.ClusterScoped(of.Kind) || len(c.Rules) > 0 && c.Rules[0].Match.Excluded.HasResource(of.Resource.Group, of.Resource.Resource))
}

// free has a rule try its expressions on the objects of targets, whatever else narrows its requests.
func (t *Trial) free(r *rule.Rule, p compile.Typed, targets []typecheck.Target) {
	if r.Name = "spec"; r.Phase == usher.Mutate {
		r.Name = "spec.mutations"
	}
	r.Match = rule.Match{Operations: operationsIn(p.Matches())}
	for _, target := range targets {
		apiVersion, name := target.Kind.ToAPIVersionAndKind()
		r.Match.Selectors = append(r.Match.Selectors, rule.Selector{APIVersion: apiVersion, Kind: name})
	}
	for i := range r.Steps {
		r.Steps[i].Program = traced{r.Steps[i].Program, t.types.Uses(p.Expressions())}
	}
}

// tryParamless tries a policy, which works with the params of its bindings, for a binding that has none.
func (t *Trial) tryParamless(ctx context.Context, set *kind.Set, p compile.Typed, words words, about explained) []rule.Problem {
	some, ok := p.(interface {
		Paramless() (field string, rules []rule.Rule)
	})
	if !ok {
		return nil
	}
	field, rules := some.Paramless()
	for _, r := range rules {
		t.free(&r, p, about.targets)
		for _, problem := range t.tryRule(ctx, set, &r, words, about) {
			if strings.Contains(problem.What, refused) {
				problem.Severity, problem.Field = rule.Mistake, field
				problem.What, problem.Do = "there are none: for the requests of this binding "+problem.What, "copy them from another binding"
				return []rule.Problem{problem}
			}
		}
	}
	return nil
}

// readsNamespace reports whether expressions of a policy may read the namespace of a request.
func readsNamespace(p compile.Typed) bool {
	for _, e := range p.Expressions() {
		if strings.Contains(e.Text, "namespaceObject") {
			return true
		}
	}
	return false
}

// sender finds that an expression asks who sends a request, or does more with its name than compare it.
var sender = regexp.MustCompile(`\brequest\.(userInfo\b|name(space)?\s*\.)|\bauthorizer\b`)

// dependsOnUsers reports whether expressions of a policy say something else for other users or names, which
// they are not tried with.
func dependsOnUsers(p compile.Typed) bool {
	for _, e := range p.Expressions() {
		if sender.MatchString(e.Text) {
			return true
		}
	}
	return false
}

// neverEqual warns of constants that no object has: those of the types have been checked, but not
// which texts there are.
func neverEqual(set *kind.Set, r *rule.Rule) []rule.Problem {
	var found []rule.Problem
	kinds := kindsOf(r.Match.Selectors)
	for _, use := range usesOf(r) {
		if len(use.Compared) == 0 {
			continue
		}
		for _, p := range pathProblems(set, r, &use, kinds) {
			if p.unlisted {
				found = append(found, p.Problem)
			}
		}
	}
	return found
}

// operationsIn returns the operations that resource rules name; none means all.
func operationsIn(m *rule.ResourceMatch) []usher.Operation {
	var all []usher.Operation
	for i := range m.Rules {
		if len(m.Rules[i].Operations) == 0 {
			return nil
		}
		for _, operation := range m.Rules[i].Operations {
			if !slices.Contains(all, operation) {
				all = append(all, operation)
			}
		}
	}
	return all
}

// traced is the program of an admission policy, with the fields that its expressions read.
type traced struct {
	rule.Program

	uses []rule.Use
}

// Uses implements [rule.Traced].
func (p traced) Uses() []rule.Use { return p.uses }

// failedCheck returns the name and the error of the first check that came to no result, no error if all did. An API
// server treats such an error of an expression as a denial.
func failedCheck(checks []usher.Check) (name string, err error) {
	for _, c := range checks {
		if c.Failed && len(c.Actions) > 0 {
			return c.Name, errors.New(c.Message)
		}
	}
	return "", nil
}

// resourceOf returns the resource of the requests for objects of a kind.
func (t *subject) resourceOf() typecheck.Target {
	for _, target := range t.explained.targets {
		if target.Kind == t.of {
			return target
		}
	}
	return typecheck.Target{}
}

// labelled returns an object with labels that the objectSelector of an admission policy selects.
func (t *subject) labelled(object map[string]any) map[string]any {
	if t.explained.targets == nil || len(t.words.objects.with)+len(t.words.objects.without) == 0 {
		return object
	}
	metadata, _ := object["metadata"].(map[string]any)
	had, _ := metadata["labels"].(map[string]any)
	object, metadata = maps.Clone(object), maps.Clone(metadata)
	labels := map[string]any{}
	maps.Copy(labels, had)
	t.words.objects.apply(labels)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["labels"], object["metadata"] = labels, metadata
	return object
}
