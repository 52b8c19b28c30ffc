// Package ruletest has helpers for tests of programs.
package ruletest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// Run runs a program. If it is a [rule.Selective], it must have the same result with the paths that
// it reads alone. If it is a [rule.Dependent], it must have the same result with requests that differ
// in everything else.
func Run(t testing.TB, p rule.Program, in *rule.Input) (rule.Outcome, error) {
	t.Helper()
	outcome, err := p.Run(context.Background(), in)
	if selective, ok := p.(rule.Selective); ok {
		part := *in
		object, old := selective.ReadPaths()
		part.Object, part.OldObject = partOf(t, in.Object, object), partOf(t, in.OldObject, old)
		same(t, p, &part, "with its read paths", outcome, err)
	}
	if dependent, ok := p.(rule.Dependent); ok && in.Request != nil {
		same(t, p, other(in, dependent.DependsOn(in.Request.Operation)), "with another request", outcome, err)
	}
	return outcome, err
}

// same has t fail unless the program has an outcome, or an error, for the input.
func same(t testing.TB, p rule.Program, in *rule.Input, how string, outcome rule.Outcome, err error) {
	t.Helper()
	again, againErr := p.Run(context.Background(), in)
	if fmt.Sprint(err) != fmt.Sprint(againErr) {
		t.Errorf("%s: error %v, but %v %s, of %v", p, err, againErr, how, in.Object)
	}
	if diff := cmp.Diff(outcome, again); diff != "" {
		t.Errorf("%s: %s, of %v: -before +then:\n%s", p, how, in.Object, diff)
	}
}

// other returns an input that differs in whatever a program does not depend on. Whether there is a
// namespace remains.
func other(in *rule.Input, on rule.Dependencies) *rule.Input {
	changed, r := *in, *in.Request
	r.UID += "-other"
	if !on.Any(rule.OnUser | rule.OnExcluded) {
		r.User = usher.User{Name: "somebody-else", UID: "8f3", Groups: []string{"others"}, Extra: map[string][]string{"scopes": {"all"}}}
	}
	if !on.Any(rule.OnOptions) {
		r.Options = usher.TreeObject(map[string]any{"kind": "CreateOptions", "fieldManager": "another", "propagationPolicy": "Orphan"})
	}
	if !on.Any(rule.OnDryRun) {
		r.DryRun = !r.DryRun
	}
	if !on.Any(rule.OnName) {
		r.Name = "another-name"
	}
	if !on.Any(rule.OnNamespace) && r.Namespace != "" {
		r.Namespace = "another-namespace"
	}
	if !on.Any(rule.OnFacts) {
		changed.Facts = nil
	}
	changed.Request = &r
	return &changed
}

// Checked returns rules whose programs have t fail if they have another result with what they say
// that they read and depend on: see [Run]. That holds for exemptions, too.
func Checked(t testing.TB, rules []rule.Rule) []rule.Rule {
	all := slices.Clone(rules)
	for i := range all {
		all[i].Steps = slices.Clone(all[i].Steps)
		for j := range all[i].Steps {
			all[i].Steps[j].Program = checked{all[i].Steps[j].Program, t}
		}
		all[i].Exemptions = slices.Clone(all[i].Exemptions)
		for j := range all[i].Exemptions {
			exemption := *all[i].Exemptions[j].Exemption
			exemption.Applies = Checked(t, exemption.Applies)
			all[i].Exemptions[j].Exemption = &exemption
		}
	}
	return all
}

// A checked program is run as [Run] does. It reads everything.
type checked struct {
	rule.Program

	t testing.TB
}

// Run implements [rule.Program].
func (c checked) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	if ctx.Err() != nil {
		return c.Program.Run(ctx, in)
	}
	return Run(c.t, c.Program, in)
}

// partOf returns the values at the paths, or all of a tree that does not survive JSON: 1.0 becomes
// 1.
func partOf(t testing.TB, tree map[string]any, paths *usher.Paths) map[string]any {
	t.Helper()
	if tree == nil {
		return nil
	}
	raw, err := usher.TreeObject(tree).Raw()
	if err != nil {
		return tree
	}
	if again, err := usher.RawObject(raw).Tree(); err != nil || !reflect.DeepEqual(tree, again) {
		return tree
	}
	part, err := usher.RawObject(raw).Part(paths)
	if err != nil {
		t.Fatal(err)
	}
	return part
}
