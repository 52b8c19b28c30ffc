package kcloudlabs

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// BuiltIn returns the rules that exist without any policy. Their Policy is zero.
//
// An object without a namespace gets that of the request before anything is matched, so that
// selectors and OverridePolicies see it.
func BuiltIn() []rule.Rule {
	return []rule.Rule{{
		Name:  "namespace from request",
		Phase: usher.Mutate,
		Pass:  passBuiltIn,
		Match: rule.Match{Operations: []usher.Operation{usher.Create, usher.Update}},
		Steps: []rule.Step{{Name: "namespace", Program: requestNamespace{reads: rule.TargetPaths()}}},
	}}
}

// A requestNamespace sets metadata.namespace to the namespace of the request.
type requestNamespace struct{ reads *usher.Paths }

// ReadPaths implements [rule.Selective].
func (p requestNamespace) ReadPaths() (object, old *usher.Paths) { return p.reads, nil }

func (requestNamespace) Run(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	metadata, ok := in.Object["metadata"].(map[string]any)
	if !ok || in.Request.Namespace == "" || isNamespace(in.Object) {
		return rule.Outcome{}, nil
	}
	if namespace := metadata["namespace"]; namespace != nil && namespace != "" {
		return rule.Outcome{}, nil
	}
	return rule.Outcome{Patch: usher.Patch{{Op: "add", Path: "/metadata/namespace", Value: in.Request.Namespace}}}, nil
}

// Brief implements [rule.Brief].
func (requestNamespace) Brief() bool { return true }

// DependsOn implements [rule.Dependent].
func (requestNamespace) DependsOn(usher.Operation) rule.Dependencies { return rule.OnNamespace }

func (requestNamespace) String() string { return "metadata.namespace from the request" }

// isNamespace detects Namespace objects, which are cluster-scoped although their requests have a
// namespace: their own name.
func isNamespace(object map[string]any) bool {
	return object["apiVersion"] == "v1" && object["kind"] == "Namespace"
}
