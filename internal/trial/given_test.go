package trial_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/trial"
)

// TestGivenOnce: what is said of every object is not said of a given one again, which is named there.
func TestGivenOnce(t *testing.T) {
	t.Parallel()
	configMap := func(name string, labels map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": labels}}
	}
	given := []map[string]any{
		configMap("a", nil), configMap("b", map[string]any{}), configMap("c", map[string]any{"team": "x"}), configMap("d", map[string]any{"team": "not a number"}),
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "e-"}}, configMap("f", nil), configMap("g", nil),
	}
	for _, row := range []struct{ reason, expression, want string }{
		{"a key that some lack", "object.metadata.labels.team != ''", "every ConfigMap without the label team, as a, b, e-* and 2 more of those given, would be refused"},
		{"what the others do not fail for", "!has(object.metadata.labels) || !has(object.metadata.labels.team) || int(object.metadata.labels.team) > 0", "CREATE of the ConfigMap c that is given would be refused|CREATE of the ConfigMap d that is given would be refused"},
		{"every object", "object.data.size()/0 == 1", "every ConfigMap that it was tried on would be refused"},
	} {
		spec := fmt.Sprintf("matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}\nvalidations: [{expression: %q}]", row.expression)
		report := trial.New(trial.Options{Objects: given}).Try(t.Context(), compile.Policy(mustPolicy(t, "cluster/p.yaml", spec)))
		var got []string
		for _, p := range report.Problems {
			before, _, _ := strings.Cut(p.What, ", because")
			got = append(got, before)
		}
		if strings.Join(got, "|") != row.want {
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}

// TestGuards: with the test that is suggested there is nothing to warn of.
func TestGuards(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"object.metadata.labels.team != ''", "object.metadata.annotations['corp.example/owner'] != ''", "object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.size() > 0",
		"object.spec.securityContext.runAsNonRoot == true", "object.spec.dnsConfig.nameservers.size() < 3",
	} {
		problems := func(expression string) []string {
			spec := fmt.Sprintf("matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\nvalidations: [{expression: %q, message: wrong}]", expression)
			var dos []string
			for _, p := range tried(t).Problems(t.Context(), compile.Policy(mustPolicy(t, "cluster/p.yaml", spec))) {
				dos = append(dos, p.Do)
			}
			return dos
		}
		before := problems(expression)
		if len(before) != 1 {
			t.Errorf("%s: %q, want one problem", expression, before)
			continue
		}
		test, ok := strings.CutPrefix(before[0], "ask first whether it is there: ")
		if after := problems("!(" + test + ") || " + expression); !ok || len(after) > 0 {
			t.Errorf("%s: %q is suggested, and then %q", expression, before[0], after)
		}
	}
}
