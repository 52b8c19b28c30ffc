package audit_test

import (
	"fmt"
	"testing"

	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
)

// TestMemoryIsCounted compares what the auditor counts with what the process takes.
//
//nolint:paralleltest // It measures the memory of the whole process.
func TestMemoryIsCounted(t *testing.T) {
	const n = 2000
	for _, row := range []struct {
		reason   string
		policies []compile.Compiled
		kind     result.Kind
		object   func(i int) []byte
	}{
		{"all are different, and fail", policies("team"), configMaps, func(i int) []byte { return configMap(i, 100, fmt.Sprint("l", i)) }},
		{"all are the same", policies("team"), configMaps, func(i int) []byte { return configMap(i, 100, "same") }},
		{"each is in a namespace of its own", policies("team"), configMaps, func(i int) []byte { return configMap(i, n, "same") }},
		{"each has a message of its own", []compile.Compiled{talking()}, pods, pod},
		{"each is of a hundred policies", hundred(), pods, pod},
		{"all have facts", policies("params"), pods, pod},
	} {
		fill := func(objects int) *audit.Auditor {
			x := audit.New(audit.Options{Judge: judge.Options{Facts: newCluster()}})
			x.Enforce(compile.Order(row.policies))
			s := x.Sink(row.kind)
			s.Begin()
			for i := range objects {
				if err := s.Set(row.object(i)); err != nil {
					t.Fatal(err)
				}
			}
			s.End()
			for x.Next() {
			}
			return x
		}
		// What is made once is not counted.
		fill(200)
		before := heap()
		x := fill(n)
		taken, counted := float64(heap()-before)/n, float64(x.Stats().Used)/n
		t.Logf("%-35s %5.0f bytes an object, %5.0f counted", row.reason, taken, counted)
		if counted < 0.8*taken || counted > 1.6*taken {
			t.Errorf("%s: %.0f bytes an object are taken, and %.0f are counted", row.reason, taken, counted)
		}
		if complete := x.Kinds()[0].Complete; !complete {
			t.Errorf("%s: it is not complete", row.reason)
		}
	}
}

// talking is a policy whose message has the name of the object.
func talking() compile.Compiled {
	return compiled(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "talking"}, "spec": {
		"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
		"validations": [{"expression": "has(object.spec.nothing)", "messageExpression": "'the pod ' + object.metadata.name + ' has nothing to say, which is not allowed'"}],
		"bindings": [{"name": "all", "validationActions": ["Deny"]}]}}`)
}

// configMap returns an object in one of some namespaces.
func configMap(i, namespaces int, label string) []byte {
	return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings-of-web-%d", "namespace": "team-%d", "uid": "5f0c2f66-2a8e-4a87-9f5d-%012d", "labels": {%q: "x"}}}`,
		i, i%namespaces, i, label)
}
