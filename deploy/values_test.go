package deploy_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// The values of everything.yaml are all there are, so that a new option is tested, too.
func TestEveryOptionIsTested(t *testing.T) {
	t.Parallel()
	defaults, set := values(t, "helm/usher/values.yaml"), values(t, "testdata/everything.yaml")
	// With these off, nothing of what they switch could be tested.
	for _, path := range []string{"webhookConfiguration.enabled", "serviceAccount.create", "metrics.enabled"} {
		delete(defaults, path)
	}
	for path, value := range defaults {
		other, ok := set[path]
		if !ok {
			t.Errorf("%s is not set in testdata/everything.yaml", path)
		} else if cmp.Equal(value, other) {
			t.Errorf("%s has its default in testdata/everything.yaml", path)
		}
	}
}

// values returns what a file with values sets, by path. Lists and empty maps are values.
func values(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := yaml.UnmarshalStrict(text, &tree); err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	var walk func(prefix string, tree map[string]any)
	walk = func(prefix string, tree map[string]any) {
		for key, value := range tree {
			switch child, _ := value.(map[string]any); {
			case len(child) > 0 && prefix == "" && key != "resources" && key != "affinity" && !isLabels(key):
				walk(key+".", child)
			case len(child) > 0 && prefix == "metrics.":
				walk(prefix+key+".", child)
			default:
				found[prefix+key] = value
			}
		}
	}
	walk("", tree)
	return found
}

func isLabels(key string) bool {
	return slices.Contains([]string{"commonLabels", "podLabels", "podAnnotations", "nodeSelector"}, key)
}

func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		set, want, reason string
	}{
		{"replica=3", "replica", "a misspelt name would be ignored"},
		{"image.tags=v1", "tags", "the same one level down"},
		{"replicas=0", "replicas", "nobody would answer the API server"},
		{"replicas=three", "replicas", "no number"},
		{"failurePolicy=Maybe", "failurePolicy", "neither Fail nor Ignore"},
		{"webhookConfiguration.failurePolicy=fail", "failurePolicy", "the case matters"},
		{"webhookConfiguration.timeoutSeconds=60", "timeoutSeconds", "API servers wait 30 seconds at most"},
		{"log.level=loud", "level", "not a level"},
		{"image.digest=sha256:123", "digest", "no digest"},
		{"facts.resources[0].apiGroups={*},facts.resources[0].resources={pods}", "apiGroups", "rights on every group"},
		{"facts.resources[0].apiGroups={apps},facts.resources[0].resources={*}", "resources", "rights on every resource"},
		{"facts.resources[0].resources={pods}", "apiGroups", "the core group has to be written out as an empty string"},
		{"extraArgs={rule-timeout=1s}", "extraArgs", "no flag"},
		{"clientAuth.clientNames={kube-apiserver}", "clientCASecret", "names that nobody vouches for"},
		{"shutdownGraceSeconds=0", "shutdownGraceSeconds", "requests in flight would be cut off"},
		{"cue.workerMemory=128", "workerMemory", "bytes: nothing could be evaluated"},
		{"goMemLimit=460Mi", "goMemLimit", "the unit of Kubernetes, with which Go ends at once"},
	}
	for _, test := range tests {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			text, err := template(t, "--set", test.set)
			if err == nil {
				t.Fatalf("accepted: %s", test.reason)
			}
			if !strings.Contains(text, "values don't meet the specifications of the schema") || !strings.Contains(text, test.want) {
				t.Errorf("the refusal does not name %s:\n%s", test.want, text)
			}
		})
	}
}
