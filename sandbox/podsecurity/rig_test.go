// Package podsecurity compares the packs of the Pod Security Standards with k8s.io/pod-security-admission.
package podsecurity

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/library"
)

const (
	byLabels = "pod-security-labels"
	// namespace is the one of all pods.
	namespace = "shop"
)

// levels are the packs by the level that they are for.
var levels = []psaapi.Level{psaapi.LevelBaseline, psaapi.LevelRestricted}

// policies returns the policies of a pack of the library, changed.
func policies(tb testing.TB, name string, change func(spec map[string]any)) []api.Policy {
	tb.Helper()
	packs, err := library.Packs()
	if err != nil {
		tb.Fatal(err)
	}
	chosen, err := library.Select(packs, []string{name})
	if err != nil {
		tb.Fatal(err)
	}
	all := make([]api.Policy, len(chosen))
	for i := range chosen {
		manifest, err := chosen[i].Manifest(library.Settings{})
		if err != nil {
			tb.Fatal(err)
		}
		all[i] = changed(tb, manifest, change)
	}
	return all
}

// changed decodes a policy, and changes it before.
func changed(tb testing.TB, manifest []byte, change func(spec map[string]any)) api.Policy {
	tb.Helper()
	var policy map[string]any
	if err := yaml.Unmarshal(manifest, &policy); err != nil {
		tb.Fatal(err)
	}
	change(policy["spec"].(map[string]any))
	encoded, err := json.Marshal(policy)
	if err != nil {
		tb.Fatal(err)
	}
	decoded, err := api.Decode(encoded)
	if err != nil {
		tb.Fatal(err)
	}
	return decoded
}

// setParam sets a param in every binding that has it.
func setParam(spec map[string]any, name string, value any) {
	for _, b := range spec["bindings"].([]any) {
		params, _ := b.(map[string]any)["params"].(map[string]any)
		if params[name] != nil {
			params[name] = value
		}
	}
}

// labelled is a cluster whose namespaces have these labels.
func labelled(labels map[string]any) fact.Resolver {
	return fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		o, ok := ref.(*fact.Object)
		if !ok || o.Kind != "Namespace" {
			return nil, fmt.Errorf("there is no %s", ref)
		}
		all := map[string]any{"kubernetes.io/metadata.name": o.Name}
		maps.Copy(all, labels)
		return map[string]any{"metadata": map[string]any{"name": o.Name, "labels": all}}, nil
	})
}

// decider decides by policies.
func decider(tb testing.TB, policies []api.Policy, facts fact.Resolver) *engine.Engine {
	tb.Helper()
	rules, problems := compile.Policies(policies)
	if len(problems) > 0 {
		tb.Fatalf("compile policies: %v", problems)
	}
	return engine.New(index.New(rules), facts, engine.Options{RuleTimeout: time.Minute})
}

// enforced returns what decides by the pack of a level at a version, and denies.
func enforced(tb testing.TB, level psaapi.Level, version string) *engine.Engine {
	tb.Helper()
	return decider(tb, denying(tb, level, version), labelled(nil))
}

// denying returns the pack of a level at a version, which denies.
func denying(tb testing.TB, level psaapi.Level, version string) []api.Policy {
	tb.Helper()
	return policies(tb, "pod-security-"+string(level), func(spec map[string]any) {
		setParam(spec, "version", version)
		for _, b := range spec["bindings"].([]any) {
			b.(map[string]any)["validationActions"] = []any{"Deny"}
		}
	})
}

// raw encodes a pod as an API server would send it.
func raw(tb testing.TB, pod *corev1.Pod) *usher.Object {
	tb.Helper()
	encoded, err := json.Marshal(pod)
	if err != nil {
		tb.Fatal(err)
	}
	return usher.RawObject(encoded)
}

func create(tb testing.TB, pod *corev1.Pod) *usher.Request {
	tb.Helper()
	return &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Namespace: namespace, Name: pod.Name,
		Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods"), Object: raw(tb, pod),
	}
}

// said returns the messages of the policies, sorted; a policy that fails says so.
func said(ctx context.Context, d usher.Decider, r *usher.Request) ([]string, error) {
	decision, err := d.Decide(ctx, r)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range decision.Findings {
		if f.Err != nil {
			return nil, fmt.Errorf("%s: %w", f.Policy, f.Err)
		}
		if f.Outcome == usher.Rejected {
			all = append(all, f.Message)
		}
	}
	if (len(all) == 0) != (decision.Verdict == usher.Allow) {
		return nil, fmt.Errorf("verdict %v with the messages %q", decision.Verdict, all)
	}
	slices.Sort(all)
	return all, nil
}

// details returns what the checks of Kubernetes say about a pod, sorted.
func details(evaluator psapolicy.Evaluator, at psaapi.LevelVersion, pod *corev1.Pod) []string {
	var all []string
	for _, result := range evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec) {
		one := psapolicy.AggregateCheckResults([]psapolicy.CheckResult{result})
		if !one.Allowed {
			all = append(all, one.ForbiddenDetail())
		}
	}
	slices.Sort(all)
	return all
}

// upstream is what Kubernetes itself decides by.
func upstream(tb testing.TB) psapolicy.Evaluator {
	tb.Helper()
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return evaluator
}

// same compares both on one pod.
func same(tb testing.TB, evaluator psapolicy.Evaluator, d usher.Decider, at psaapi.LevelVersion, pod *corev1.Pod) (denied bool) {
	tb.Helper()
	want := details(evaluator, at, pod)
	got, err := said(context.Background(), d, create(tb, pod))
	if err != nil {
		tb.Fatalf("%s: %v", at, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		encoded, _ := json.Marshal(pod)
		tb.Errorf("%s: other messages than those of Kubernetes (-want +got):\n%s\n%s", at, diff, encoded)
	}
	return len(want) > 0
}

func versionOf(folder string) (psaapi.Version, error) {
	version, err := psaapi.ParseVersion(folder)
	if err != nil {
		return version, fmt.Errorf("version %q: %w", strings.TrimSpace(folder), err)
	}
	return version, nil
}
