package kyverno_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno"
	"github.com/usher-dev/usher/internal/kind"
)

// TestPartial: with Partial, rules that cannot be converted are missing, with those that are about what they would have
// made of objects. The descriptions say so, and a policy of which nothing remains is left out.
func TestPartial(t *testing.T) {
	t.Parallel()
	const (
		good      = `{name: good, match: {resources: {kinds: [ConfigMap]}}, validate: {message: m, pattern: {data: {a: x}}}}`
		changes   = `{name: changes, match: {resources: {kinds: [ConfigMap]}}, mutate: {patchStrategicMerge: {data: {b: x}}}}`
		generates = `{name: generates, match: {resources: {kinds: [ConfigMap]}}, generate: {}}`
		lost      = `{name: lost, match: {resources: {kinds: [ConfigMap]}}, mutate: {patchStrategicMerge: {data: {a: "{{ random('[a-z]') }}"}}}}`
		existing  = `{name: existing, match: {resources: {kinds: [ConfigMap]}}, mutate: {targets: [{apiVersion: v1, kind: ConfigMap}], patchStrategicMerge: {data: {a: x}}}}`
	)
	for _, row := range []struct {
		reason, spec string
		rules        []string
		policies     int
		without      string
		left         int
	}{
		{"all of it", "", []string{good, changes}, 2, "[]", 0},
		{"one is missing", "", []string{generates, good}, 1, "[generates]", 0},
		{"a change is missing", "", []string{changes, lost, changes, good}, 1, "[lost changes good]", 0},
		{"a change of other objects is missing", "", []string{existing, good}, 1, "[existing]", 0},
		{"nothing remains", "", []string{generates, lost}, 0, "[]", 2},
		{"the whole policy", "admission: false, ", []string{generates, good}, 0, "[]", 2},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			var object map[string]any
			text := fmt.Sprintf(`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p, annotations: {policies.kyverno.io/description: What it is for.}}, spec: {%srules: [%s]}}`, row.spec, strings.Join(row.rules, ", "))
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			i := kyverno.Policies(t.Context(), []convert.Foreign{{Object: object}}, kyverno.Options{Kinds: kind.Recorded(), Partial: true})[0]
			if len(i.To) != row.policies || fmt.Sprint(i.Without) != row.without || len(i.Left) != row.left || len(i.Missing) != len(i.Without) {
				t.Errorf("%d policies, without %v, left out for %v, missing %v", len(i.To), i.Without, i.Left, i.Missing)
			}
			documents, err := convert.Documents(i.To)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range documents {
				description, _ := d["spec"].(map[string]any)["description"].(string)
				if !strings.HasPrefix(description, "What it is for.") {
					t.Errorf("description %q", description)
				}
				for _, p := range i.Missing {
					if !strings.Contains(description, "Of ClusterPolicy p is missing:") || !strings.Contains(description, "\n* "+p.Field+": "+p.What) {
						t.Errorf("description %q lacks %v", description, p)
					}
				}
			}
		})
	}
}

// TestPartialDescriptions: descriptions are no longer than policies may have them, however long the texts are.
func TestPartialDescriptions(t *testing.T) {
	t.Parallel()
	for _, description := range []string{strings.Repeat("a", 5000), strings.Repeat("ä€", 1500)} {
		rules := strings.Repeat(`{name: generates, match: {resources: {kinds: [ConfigMap]}}, generate: {}}, `, 100)
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p, annotations: {policies.kyverno.io/description: "`+description+`"}}, spec: {rules: [`+rules+
			`{name: good, match: {resources: {kinds: [ConfigMap]}}, validate: {message: m, pattern: {data: {a: x}}}}]}}`), &object); err != nil {
			t.Fatal(err)
		}
		i := kyverno.Policies(t.Context(), []convert.Foreign{{Object: object}}, kyverno.Options{Kinds: kind.Recorded(), Partial: true})[0]
		if len(i.To) != 1 || len(i.Missing) != 100 {
			t.Errorf("left out for %v, %d missing", i.Left, len(i.Missing))
		}
	}
}
