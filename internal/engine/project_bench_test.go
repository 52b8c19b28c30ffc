package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// BenchmarkPods compares a rule on a pod with the same rule on the pod of a Deployment.
func BenchmarkPods(b *testing.B) {
	read := func(r rule.Rule) rule.Rule {
		r.Steps[0].Program = picky{program(func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
			spec, _ := in.Object["spec"].(map[string]any)
			if spec["hostNetwork"] == true {
				return rule.Outcome{Verdict: usher.Deny, Message: "no"}, nil
			}
			return rule.Outcome{}, nil
		}), []string{"spec.hostNetwork", "spec.containers"}, nil}
		return r
	}
	containers := []any{}
	for i := range 3 {
		containers = append(containers, map[string]any{
			"name": fmt.Sprint("c", i), "image": "registry.example.com/team/app:v1.2.3", "ports": []any{map[string]any{"containerPort": int64(80)}},
			"resources": map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}, "limits": map[string]any{"memory": "256Mi"}},
			"env":       []any{map[string]any{"name": "A", "value": "1"}, map[string]any{"name": "B", "value": "2"}},
		})
	}
	template := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"hostNetwork": false, "containers": containers, "dnsPolicy": "ClusterFirst", "restartPolicy": "Always"},
	}
	plain := read(one("plain", nil))
	plain.Phase, plain.Match = usher.Validate, podsCreated()
	fix := changing(one("fix", nil))
	fix.Steps[0].Program = picky{patch(add("/spec/priorityClassName", "low")), nil, nil}
	fix.Match.Selectors[0].APIVersion, fix.Match.Selectors[0].Kind = "v1", "Pod"
	for _, tt := range []struct {
		name    string
		rules   []rule.Rule
		request func(raw bool) *usher.Request
	}{
		{"pod", []rule.Rule{plain}, func(raw bool) *usher.Request { return podCreation(b, template, raw) }},
		{"projected", []rule.Rule{forPods(read(one("plain", nil)))}, func(raw bool) *usher.Request { return deploymentWritten(b, template, nil, raw) }},
		{"projected and changed", []rule.Rule{fix, forPods(read(one("plain", nil)))}, func(raw bool) *usher.Request { return deploymentWritten(b, template, nil, raw) }},
		{"template unchanged", []rule.Rule{forPods(read(one("plain", nil)))}, func(raw bool) *usher.Request { return deploymentWritten(b, template, template, raw) }},
		{"deployment, no rule for its pods", []rule.Rule{plain}, func(raw bool) *usher.Request { return deploymentWritten(b, template, nil, raw) }},
	} {
		for _, raw := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/raw=%t", tt.name, raw), func(b *testing.B) {
				e, r := engineOf(nil, tt.rules...), tt.request(raw)
				b.ReportAllocs()
				for b.Loop() {
					if d, err := e.Decide(b.Context(), r); err != nil || d.Verdict != usher.Allow {
						b.Fatalf("%+v, %v", d, err)
					}
				}
			})
		}
	}
}

func objectIn(b *testing.B, tree map[string]any, raw bool) *usher.Object {
	b.Helper()
	if tree == nil {
		return nil
	}
	if !raw {
		return usher.TreeObject(tree)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		b.Fatal(err)
	}
	return usher.RawObject(text)
}

func podCreation(b *testing.B, template map[string]any, raw bool) *usher.Request {
	b.Helper()
	r := rule.PodCreation(usher.Validate)
	r.Namespace = "shop"
	r.Object = objectIn(b, map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"generateName": "web-", "namespace": "shop", "labels": template["metadata"].(map[string]any)["labels"]},
		"spec": template["spec"],
	}, raw)
	return &r
}

func deploymentWritten(b *testing.B, template, old map[string]any, raw bool) *usher.Request {
	b.Helper()
	of := func(template map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "shop"},
			"spec": map[string]any{"replicas": int64(2), "template": template},
		}
	}
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: "web", Namespace: "shop"}
	r.Kind.Group, r.Kind.Version, r.Kind.Kind = "apps", "v1", "Deployment"
	r.Resource.Group, r.Resource.Version, r.Resource.Resource = "apps", "v1", "deployments"
	r.Object = objectIn(b, of(template), raw)
	if old != nil {
		r.Operation, r.OldObject = usher.Update, objectIn(b, of(old), raw)
	}
	return r
}
