package cue_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	validateRule = `object: _ @tag(object)
validate: {
	if object.metadata.labels.guard != _|_ {
		if object.metadata.labels.guard == "on" {
			valid:  false
			reason: "guarded"
		}
	}
}`
	patchRule = `object: _ @tag(object)
patches: [
	if object.metadata.annotations == _|_ {
		{op: "add", path: "/metadata/annotations", value: {}}
	},
	{op: "add", path: "/metadata/annotations/owner", value: "\(object.metadata.namespace)-\(object.metadata.name)"},
]`
)

// pod is an object of about 4 KB of JSON.
func pod() map[string]any {
	var containers []any
	for i := range 3 {
		var env []any
		for j := range 8 {
			env = append(env, map[string]any{"name": fmt.Sprint("VARIABLE_", j), "value": fmt.Sprint("some value ", i, j)})
		}
		containers = append(containers, map[string]any{
			"name": fmt.Sprint("container-", i), "image": fmt.Sprint("registry.example/team/app-", i, ":1.2.3"), "env": env,
			"ports": []any{map[string]any{"name": "http", "containerPort": int64(8080), "protocol": "TCP"}},
			"resources": map[string]any{
				"limits":   map[string]any{"cpu": "500m", "memory": "512Mi"},
				"requests": map[string]any{"cpu": "250m", "memory": "256Mi"},
			},
			"volumeMounts":             []any{map[string]any{"name": "data", "mountPath": "/var/lib/data"}},
			"terminationMessagePath":   "/dev/termination-log",
			"terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
		})
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"name": "app-7f9c", "namespace": "shop",
			"labels": map[string]any{"app": "app", "guard": "off", "team": "red", "pod-template-hash": "7f9c"},
		},
		"spec": map[string]any{"containers": containers, "restartPolicy": "Always", "serviceAccountName": "default"},
	}
}

func BenchmarkRun(b *testing.B) {
	for _, bb := range []struct{ name, source string }{{"validate/simple", validateRule}, {"override/patch", patchRule}} {
		p := compile(b, bb.name, bb.source, cue.Options{})
		in := &rule.Input{Object: pod()}
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Run(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bb.name+"/on a worker", func(b *testing.B) {
			slow := p.Slowly()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := slow.Run(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bb.name+"/in process", func(b *testing.B) {
			slow := p.Slowly().On(cue.InProcess(cue.Limits{}))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := slow.Run(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bb.name+"/whole", func(b *testing.B) {
			whole := p.Whole()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := whole.Run(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if p, problems := cue.Compile(b.Context(), patchRule, cue.Override, cue.Options{}); p == nil {
			b.Fatal(problems)
		}
	}
}
