package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/rule"
)

// TestProjectingIsDecidingOnThePod compares rules for the pods of workloads with the same rules on
// the pod that is made by hand, after the rules that change pods have been run on it by themselves.
func TestProjectingIsDecidingOnThePod(t *testing.T) {
	t.Parallel()
	resolver := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) { return "fact " + ref.String(), nil })
	outcomes := map[string]int{}
	for seed := range uint64(800) {
		g := &podGenerator{rand.New(rand.NewPCG(seed, 19))}
		request, made := g.request(t)
		mutating, validating := g.rules()
		projected := slices.Clone(mutating)
		for _, r := range validating {
			projected = append(projected, forPods(r))
		}
		got := decide(t, engineOf(resolver, projected...), request)
		want := obviously(t, resolver, mutating, validating, request, made)
		same := cmp.Equal(want.Verdict, got.Verdict) && want.Message == got.Message && slices.Equal(want.Warnings, got.Warnings)
		if diff := cmp.Diff(found(want.Findings), found(got.Findings)); !same || diff != "" {
			object, _ := request.Object.Raw()
			t.Errorf("seed %d: %s\nwant %s %q, warnings %q\ngot  %s %q, warnings %q\n%s", seed, object, want.Verdict, want.Message, want.Warnings, got.Verdict, got.Message, got.Warnings, diff)
		}
		for _, f := range got.Findings {
			outcomes[string(f.Outcome)]++
		}
	}
	for _, outcome := range []usher.Outcome{usher.Passed, usher.Rejected, usher.Skipped, usher.Failed} {
		if outcomes[string(outcome)] < 50 {
			t.Errorf("hardly any rule has %s: %v", outcome, outcomes)
		}
	}
}

// obviously decides on the pod, which is nil if it is not judged.
func obviously(t *testing.T, facts fact.Resolver, mutating, validating []rule.Rule, r *usher.Request, pod map[string]any) usher.Decision {
	t.Helper()
	if pod == nil {
		var d usher.Decision
		for _, v := range validating {
			why := "the pod template has not changed"
			if object, _ := r.Object.Raw(); strings.Contains(string(object), `"App"`) {
				why = "it is owned by a controller, whose own pod template is judged"
			}
			d.Findings = append(d.Findings, usher.Finding{Policy: v.Policy, Outcome: usher.Skipped, Message: why})
		}
		d.Verdict = usher.Allow
		return d
	}
	of := rule.PodCreation(usher.Mutate)
	of.Namespace, of.User, of.Object = r.Namespace, r.User, usher.TreeObject(pod)
	changed := decide(t, engineOf(facts, mutating...), &of)
	if changed.Verdict == usher.Allow {
		var err error
		if pod, _, err = jsonpatch.Apply(pod, changed.Patch); err != nil {
			t.Fatal(err)
		}
	}
	of.Phase, of.Object = usher.Validate, usher.TreeObject(pod)
	onPods := make([]rule.Rule, len(validating))
	for i, v := range validating {
		v.Phase, v.Match = usher.Validate, podsCreated()
		onPods[i] = v
	}
	return decide(t, engine.New(scanned(onPods), facts, engine.Options{}), &of)
}

// A scanned matcher tries every rule.
type scanned []rule.Rule

func (s scanned) Passes(usher.Phase) []int { return []int{0} }

func (s scanned) Matching(dst []*rule.Rule, _ usher.Phase, _ int, target *rule.Target) []*rule.Rule {
	for i := range s {
		if s[i].Match.Matches(target) {
			dst = append(dst, &s[i])
		}
	}
	return dst
}

type podGenerator struct{ *rand.Rand }

func (g *podGenerator) maybe(n int) bool { return g.IntN(n) == 0 }

func (g *podGenerator) of(texts ...string) string { return texts[g.IntN(len(texts))] }

// template is the template of a pod.
func (g *podGenerator) template() map[string]any {
	spec := map[string]any{"hostNetwork": g.maybe(2), "priority": int64(g.IntN(3))}
	var containers []any
	for i := range g.IntN(3) {
		containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": g.of("a", "b") + ":" + g.of("1", "latest")})
	}
	if containers != nil {
		spec["containers"] = containers
	}
	metadata := map[string]any{"name": "not for pods", "namespace": "elsewhere"}
	for _, field := range []string{"labels", "annotations"} {
		if g.maybe(2) {
			metadata[field] = map[string]any{"app": g.of("web", "db"), "x/y": g.of("1", "2")}
		}
	}
	template := map[string]any{"spec": spec}
	if g.maybe(2) {
		template["metadata"] = metadata
	}
	return template
}

// request writes a workload. The pod is made by hand, nil if it is not to be judged.
func (g *podGenerator) request(t *testing.T) (*usher.Request, map[string]any) {
	t.Helper()
	kind := g.of("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob", "PodTemplate")
	apiVersion := map[string]string{"ReplicationController": "v1", "PodTemplate": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}[kind]
	if apiVersion == "" {
		apiVersion = "apps/v1"
	}
	owner, ownerAPI := kind, apiVersion
	switch kind {
	case "Deployment":
		owner = "ReplicaSet"
	case "CronJob":
		owner = "Job"
	}
	wrapped := func(template map[string]any) string {
		object := map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": map[string]any{"template": template}}
		switch kind {
		case "PodTemplate":
			delete(object, "spec")
			object["template"] = template
		case "CronJob":
			object["spec"] = map[string]any{"schedule": "@daily", "jobTemplate": map[string]any{"spec": object["spec"]}}
		}
		object["metadata"] = map[string]any{"name": "web", "namespace": "shop"}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	template := g.template()
	text := wrapped(template)
	metadata := map[string]any{"namespace": "shop", "generateName": "web-"}
	if kind != "PodTemplate" {
		metadata["ownerReferences"] = []any{map[string]any{
			"apiVersion": ownerAPI, "kind": owner, "name": "web", "uid": "", "controller": true, "blockOwnerDeletion": true,
		}}
	}
	of, _ := template["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if value, ok := of[field]; ok {
			metadata[field] = value
		}
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
	r := workloadRequest(t, kind, text)
	switch g.IntN(6) {
	case 0:
		r.Object = usher.RawObject([]byte(strings.Replace(text, `"metadata":{"name":"web"`, `"metadata":{"ownerReferences":[{"kind":"App","controller":true}],"name":"web"`, 1)))
		pod = nil
	case 1:
		r.Operation, r.OldObject = usher.Update, usher.RawObject([]byte(strings.Replace(text, `"name":"web"`, `"name":"web","labels":{"new":"1"}`, 1)))
		pod = nil
	case 2:
		old := g.template()
		r.Operation, r.OldObject = usher.Update, usher.RawObject([]byte(wrapped(old)))
		before, _ := old["metadata"].(map[string]any)
		if cmp.Equal(old["spec"], template["spec"]) && cmp.Equal(before["labels"], of["labels"]) && cmp.Equal(before["annotations"], of["annotations"]) {
			pod = nil
		}
	}
	return r, pod
}

// rules are some that change pods and some that judge them, of which some say what they read.
func (g *podGenerator) rules() (mutating, validating []rule.Rule) {
	for i := range g.IntN(4) {
		r := changing(one(fmt.Sprint("m", i), g.change()))
		r.Pass = g.IntN(2)
		if g.maybe(3) {
			r.FailurePolicy = usher.Ignore
		}
		mutating = append(mutating, r)
	}
	for i := range 1 + g.IntN(3) {
		p, reads := g.judgement()
		r := one(fmt.Sprint("v", i), p)
		if g.maybe(2) {
			r.Steps[0].Program = picky{p, reads, reads}
		}
		if g.maybe(5) {
			r.FailurePolicy = usher.Ignore
		}
		r.Independent = g.maybe(2)
		validating = append(validating, r)
	}
	return mutating, validating
}

func (g *podGenerator) change() program {
	set := func(path string, value any) program { return patch(add(path, value)) }
	return []program{
		set("/spec/hostNetwork", false), set("/spec/hostNetwork", true), set("/spec/priority", int64(g.IntN(3))),
		set("/spec/containers/0/image", "a:2"), label("app", "db"), set("/metadata/annotations/x~1y", "3"),
		patch(usher.PatchOp{Op: "remove", Path: "/metadata/labels/app"}), warn("not told"), fail(errBroken), deny("never"),
		func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
			value, err := in.Facts.Value(configMap("m"))
			return rule.Outcome{Patch: usher.Patch{add("/spec/fact", value)}}, err
		},
	}[g.IntN(11)]
}

// judgement is a program with the paths that it reads.
func (g *podGenerator) judgement() (program, []string) {
	denyIf := func(path string, holds func(value any) bool) (program, []string) {
		return func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
			var value any = in.Object
			for key := range strings.SplitSeq(path, ".") {
				m, _ := value.(map[string]any)
				value = m[key]
			}
			out := rule.Outcome{Warnings: []string{fmt.Sprint(path, " is ", value)}}
			if holds(value) {
				out.Verdict, out.Message = usher.Deny, fmt.Sprint(path, " must not be ", value)
			}
			return out, nil
		}, []string{path}
	}
	switch g.IntN(8) {
	case 0:
		return denyIf("spec.hostNetwork", func(v any) bool { return v == true })
	case 1:
		return denyIf("spec.containers", func(v any) bool { return strings.Contains(fmt.Sprint(v), "latest") })
	case 2:
		return denyIf("metadata.labels.app", func(v any) bool { return v == nil })
	case 3:
		return denyIf("metadata.annotations", func(v any) bool { return v != nil })
	case 4:
		return denyIf("metadata", func(v any) bool { return g.maybe(1) && v == nil })
	case 5:
		return denyIf("spec.fact", func(v any) bool { return v != nil })
	case 6:
		return ask(configMap("m")), nil
	}
	return fail(errBroken), []string{"spec.priority"}
}
