package policytest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/policytest"
)

// features are what an object policy has in a case of the matrix; the first of each is none.
var features = []struct {
	name   string
	values []string
}{
	{"action", []string{"Deny", "Warn", "Audit"}},
	{"params", []string{"", "forbid", "allow"}},
	{"failure", []string{"", "Fail", "Ignore"}},
	{"subjects", []string{"", "excluded"}},
	{"exemption", []string{"", "Skip"}},
	{"podTemplates", []string{"", "Off", "Deny"}},
}

// A written is a request that violates the policy. By its role params list it, or the expression
// fails on it; jane is excluded, and joe is exempt.
type written struct{ user, role, kind string }

func requests() []written {
	var all []written
	for _, user := range []string{"jane", "joe", "ann"} {
		for _, role := range []string{"listed", "other", "odd"} {
			all = append(all, written{user, role, "Pod"}, written{user, role, "Deployment"})
		}
	}
	return all
}

// A said is the answer to a request: denied, warned, or silent.
type said string

// model is the truth table. Without podTemplates, the pods of workloads are warned of.
func model(f map[string]string, r written) said {
	action := f["action"]
	switch {
	case r.kind == "Deployment" && f["podTemplates"] == "Off",
		r.user == "jane" && f["subjects"] == "excluded",
		r.user == "joe" && f["exemption"] == "Skip",
		r.role == "odd" && f["failure"] == "Ignore",
		r.role == "listed" && f["params"] == "allow":
		return "silent"
	case r.kind == "Deployment" && f["podTemplates"] == "" && action == "Deny":
		return "warned"
	}
	return map[string]said{"Deny": "denied", "Warn": "warned", "Audit": "silent"}[action]
}

// TestFeaturesTogether decides with every combination of the features of an object policy, and
// compares with a truth table. A pair of features counts if in some combination removing either of
// them changes the answers to the requests.
func TestFeaturesTogether(t *testing.T) {
	t.Parallel()
	answers := map[string]string{}
	count := 0
	var each func(f map[string]string, i int)
	each = func(f map[string]string, i int) {
		if i < len(features) {
			for _, value := range features[i].values {
				f[features[i].name] = value
				each(f, i+1)
			}
			return
		}
		count++
		got := decide(t, f)
		answers[key(f)] = fmt.Sprint(got)
		for i, r := range requests() {
			if want := model(f, r); got[i] != want {
				t.Errorf("%s, %v: %s, want %s", key(f), r, got[i], want)
			}
		}
	}
	each(map[string]string{}, 0)
	if count < 300 {
		t.Errorf("%d combinations, want 300", count)
	}
	for i := range features {
		for j := range i {
			if !meet(answers, i, j) {
				t.Errorf("%s and %s do not meet: removing one of them never changes the answer", features[i].name, features[j].name)
			}
		}
	}
}

// meet reports whether in some combination with both features removing either changes the answer.
func meet(answers map[string]string, i, j int) bool {
	for combination, answer := range answers {
		values := strings.Split(combination, ",")
		without := func(n int) string {
			changed := slices.Clone(values)
			changed[n] = features[n].values[0]
			return answers[strings.Join(changed, ",")]
		}
		if without(i) != answer && without(j) != answer {
			return true
		}
	}
	return false
}

func key(f map[string]string) string {
	values := make([]string, len(features))
	for i := range features {
		values[i] = f[features[i].name]
	}
	return strings.Join(values, ",")
}

// decide decides the requests with a combination.
func decide(t *testing.T, f map[string]string) []said {
	t.Helper()
	asWritten := false
	c := policytest.Case{Name: key(f), Phase: usher.Validate, Policies: policies(f), RenderPolicies: &asWritten}
	setup, err := c.Setup(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	defer setup.Close()
	var all []said
	for _, w := range requests() {
		written := policytest.Request{Operation: usher.Create, Namespace: "shop", Object: w.object(), User: policytest.User{Name: w.user}}
		r, err := written.For(usher.Validate)
		if err != nil {
			t.Fatal(err)
		}
		d, err := setup.Decider.Decide(t.Context(), r)
		switch {
		case err != nil:
			t.Fatal(err)
		case d.Verdict == usher.Deny:
			all = append(all, "denied")
		case len(d.Warnings) > 0:
			all = append(all, "warned")
		default:
			all = append(all, "silent")
		}
	}
	return all
}

// policies are an object policy with the features of a combination, and its exemption.
func policies(f map[string]string) []map[string]any {
	binding := map[string]any{"name": "all", "validationActions": []any{f["action"]}}
	expression := "!object.spec.hostNetwork"
	if f["params"] != "" {
		binding["params"] = map[string]any{"allow": map[string][]any{"allow": {"listed"}, "forbid": {}}[f["params"]]}
		expression = "object.metadata.labels.role in params.allow || !object.spec.hostNetwork"
	}
	spec := map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"pods"},
		}}},
		"bindings": []any{binding},
		"validations": []any{map[string]any{
			"expression": "object.metadata.labels.role == 'odd' ? object.spec.none.x == 1 : (" + expression + ")", "message": "no host network",
		}},
	}
	for name, field := range map[string]string{"failure": "failurePolicy", "podTemplates": "podTemplates"} {
		if f[name] != "" {
			spec[field] = f[name]
		}
	}
	if f["subjects"] != "" {
		spec["excludeSubjects"] = []any{map[string]any{"users": []any{"jane"}}}
	}
	all := []map[string]any{{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": map[string]any{"name": "p"}, "spec": spec}}
	if f["exemption"] == "" {
		return all
	}
	return append(all, map[string]any{
		"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": map[string]any{"name": "x"},
		"spec": map[string]any{
			"policyRefs": []any{map[string]any{"kind": "ClusterObjectPolicy", "name": "p"}},
			"subjects":   []any{map[string]any{"users": []any{"joe"}}},
			"reason":     "a migration", "owner": "team-a", "expiresAt": "2099-01-01T00:00:00Z", "action": f["exemption"],
		},
	})
}

// object is the pod, or the Deployment that makes one.
func (w written) object() map[string]any {
	labels := map[string]any{"role": w.role}
	spec := map[string]any{"hostNetwork": true, "containers": []any{map[string]any{"name": "a", "image": "a"}}}
	metadata := map[string]any{"name": "a", "namespace": "shop", "labels": labels}
	if w.kind == "Pod" {
		return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
	}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec},
		},
	}
}
