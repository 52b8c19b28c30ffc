package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/usher-dev/usher/api"
)

func TestFields(t *testing.T) {
	t.Parallel()
	paths := map[string][]string{}
	for _, kind := range api.Kinds() {
		for _, path := range kind.Fields() {
			paths[kind.Kind] = append(paths[kind.Kind], strings.Join(path, "."))
		}
	}
	for _, test := range []struct {
		reason, kind, path string
		want               bool
	}{
		{"a field", "ObjectPolicy", "spec.description", true},
		{"a field of an inlined struct", "ClusterObjectPolicy", "spec.validations", true},
		{"a field that one of two kinds has", "ObjectPolicy", "spec.namespaceExemptions", false},
		{"a field of the elements of a list", "ObjectPolicy", "spec.bindings.[].validationActions", true},
		{"the elements of a list of texts", "ObjectPolicy", "spec.links.[]", true},
		{"a field below a pointer", "ClusterPolicyExemption", "spec.matchConstraints.resourceRules", true},
		{"an inlined struct two levels down", "ClusterPolicyExemption", "spec.matchConstraints.resourceRules.[].apiGroups", true},
		{"the values of a map", "ClusterPolicyExemption", "spec.matchConstraints.namespaceSelector.matchLabels.*", true},
		{"a field with any JSON", "ObjectPolicy", "spec.bindings.[].params", true},
		{"what is below it is not known", "ObjectPolicy", "spec.bindings.[].params.Raw", false},
		{"a time has no fields", "PolicyExemption", "spec.expiresAt.Time", false},
		{"status", "PolicyExemption", "status.conditions.[].reason", true},
		{"metadata is the API server's", "PolicyExemption", "metadata.name", false},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			if got := slices.Contains(paths[test.kind], test.path); got != test.want {
				t.Errorf("%s has %s: %t, want %t", test.kind, test.path, got, test.want)
			}
		})
	}
}
