package typecheck_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
)

func scope(t *testing.T) *typecheck.Scope {
	t.Helper()
	s, err := typecheck.New().Scope(t.Context(), kind.Recorded(), &typecheck.Policy{
		Expressions: []admission.Expression{
			{Name: "containers", Text: "object.spec.containers", Use: admission.Variable},
			{Name: "broken", Text: "object.spec.", Use: admission.Variable},
			{Name: "first", Text: "variables.containers[0]", Use: admission.Variable},
		},
		Params: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Data:   []admission.Data{{Name: "quota", Kind: schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}}},
	}, typecheck.Target{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestScope: the types of expressions, one of the fields of each, and one of the functions.
func TestScope(t *testing.T) {
	t.Parallel()
	s := scope(t)
	for _, test := range []struct{ expression, want, field, function string }{
		{"object", "object", "spec", ""},
		{"object.spec", "PodSpec", "hostNetwork", ""},
		{"object.spec.hostNetwork", "bool", "", ""},
		{"object.spec.containers", "list(Container)", "", "size"},
		{"object.metadata.labels", "map(string, string)", "", "all"},
		{"object.metadata.name", "string", "", "startsWith"},
		{"variables", "variables", "first", ""},
		{"variables.first", "Container", "image", ""},
		{"variables.broken", "dyn", "", "endsWith"},
		{"params.data", "map(string, string)", "", "exists"},
		{"request", "AdmissionRequest", "operation", ""},
		{"request.userInfo", "UserInfo", "groups", ""},
		{"namespaceObject.metadata", "NamespaceMetadata", "labels", ""},
		{"data", "data", "quota", ""},
		{"data.quota.spec", "ResourceQuotaSpec", "hard", ""},
		{"object.spec.containers.map(c, c.ports)[0]", "list(ContainerPort)", "", "filter"},
		{"object.spec.containers + object.spec.?initContainers.orValue([]) + object.spec.?ephemeralContainers.orValue([])", "list(Container or EphemeralContainer)", "", "all"},
		{"(object.spec.containers + object.spec.ephemeralContainers)[0]", "Container or EphemeralContainer", "targetContainerName", ""},
		{"(object.spec.ephemeralContainers + object.spec.containers)[0].securityContext", "SecurityContext", "runAsUser", ""},
		{"(object.spec.containers + object.spec.volumes)[0].name", "string", "", "startsWith"},
		{"(object.spec.containers + ['x'])[0]", "dyn", "", ""},
		{"authorizer", "Authorizer", "", "group"},
		{"quantity('1')", "Quantity", "", "isGreaterThan"},
		{"object.?spec", "optional_type(PodSpec)", "hostNetwork", "orValue"},
		{"object.", "dyn", "", "contains"},
		{"[?object.x]", "list(error)", "", "size"},
	} {
		of := s.Type(test.expression)
		if of.String() != test.want {
			t.Errorf("%s is %s, want %s", test.expression, of, test.want)
		}
		has := func(names []typecheck.Name, name string) bool {
			return name == "" || slices.ContainsFunc(names, func(n typecheck.Name) bool { return n.Name == name })
		}
		if !has(s.Fields(of), test.field) {
			t.Errorf("%s has no field %s: %v", test.expression, test.field, s.Fields(of))
		}
		if !has(s.Functions(&of), test.function) {
			t.Errorf("%s has no function %s: %v", test.expression, test.function, s.Functions(&of))
		}
	}
	if fields := s.Fields(s.Type("object.spec")); fields[0].Of != "io.k8s.api.core.v1.PodSpec" {
		t.Errorf("field %v", fields[0])
	}
	if fields := s.Fields(s.Type("object")); fields[0].Of != "io.k8s.api.core.v1.Pod" {
		t.Errorf("field %v", fields[0])
	}
	if text := s.Type("object.metadata.name"); slices.ContainsFunc(s.Functions(&text), func(n typecheck.Name) bool { return n.Name == "isGreaterThan" }) {
		t.Error("text has functions of quantities")
	}
	for _, name := range []string{"size", "has", "quantity", "sets.contains"} {
		if !slices.ContainsFunc(s.Functions(nil), func(n typecheck.Name) bool { return n.Name == name }) {
			t.Errorf("there is no function %s", name)
		}
	}
	var texts []string
	for _, v := range s.Variables() {
		texts = append(texts, v.Name+" "+v.Type)
	}
	if got, want := strings.Join(texts, ", "), "object object, oldObject object, request AdmissionRequest, params params, variables variables, namespaceObject Namespace, authorizer Authorizer, data data"; got != want {
		t.Errorf("variables %s, want %s", got, want)
	}
}
