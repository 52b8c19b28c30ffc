package plugin_test

import (
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/plugin"
)

const header = "apiVersion: apiserver.usher.dev/v1alpha1\nkind: UsherConfiguration\n"

func TestRead(t *testing.T) {
	t.Parallel()
	typed := metav1.TypeMeta{APIVersion: plugin.APIVersion, Kind: plugin.Kind}
	no := false
	for _, test := range []struct {
		reason string
		text   string
		want   *plugin.Configuration
		err    string
	}{
		{reason: "nothing is said", want: &plugin.Configuration{FactTTL: metav1.Duration{Duration: 10 * time.Second}}},
		{reason: "YAML", text: header + "policies: [a]\nfromAPI: false\nfailurePolicy: Ignore\nrequestTimeout: 2s\nfactTTL: 1m", want: &plugin.Configuration{
			TypeMeta: typed, Policies: []string{"a"}, FromAPI: &no, FailurePolicy: usher.Ignore,
			RequestTimeout: metav1.Duration{Duration: 2 * time.Second}, FactTTL: metav1.Duration{Duration: time.Minute},
		}},
		{
			reason: "JSON, which is what servers hand over", text: `{"apiVersion":"apiserver.usher.dev/v1alpha1","kind":"UsherConfiguration","policies":["a"]}`,
			want: &plugin.Configuration{TypeMeta: typed, Policies: []string{"a"}, FactTTL: metav1.Duration{Duration: 10 * time.Second}},
		},
		{reason: "a field that is not known", text: header + "polices: [a]", err: `unknown field "polices": did you mean policies?`},
		{reason: "a field that is like no other", text: header + "x: 1", err: `unknown field "x"`},
		{reason: "a field that is there twice", text: header + "policies: [a]\npolicies: [b]", err: `"policies" already set`},
		{reason: "another kind", text: "apiVersion: v1\nkind: Pod", err: "expected apiVersion apiserver.usher.dev/v1alpha1 and kind UsherConfiguration"},
		{reason: "no kind", text: "policies: [a]", err: "expected apiVersion"},
		{reason: "no policies from anywhere", text: header + "fromAPI: false", err: "name folders under policies"},
		{reason: "a word that means nothing", text: header + "failurePolicy: fail", err: "write Fail or Ignore"},
		{reason: "no time at all", text: header + "ruleTimeout: -1s", err: "ruleTimeout is -1s"},
	} {
		var config io.Reader
		if test.text != "" {
			config = strings.NewReader(test.text)
		}
		got, err := plugin.Read(config)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want %q", test.reason, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

// TestDocumentedConfiguration reads the configuration in docs/embedding.md, also with all that is commented out there.
func TestDocumentedConfiguration(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "  configuration:\n")
	block, _, ends := strings.Cut(block, "```")
	if !found || !ends {
		t.Fatal("docs/embedding.md has no configuration")
	}
	for field := range reflect.TypeFor[plugin.Configuration]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && !regexp.MustCompile(`(?m)^    (# )?`+name+`: `).MatchString(block) {
			t.Errorf("docs/embedding.md does not have %s", name)
		}
	}
	for _, config := range []string{block, regexp.MustCompile(`(?m)^    # `).ReplaceAllString(block, "    ")} {
		if _, err := plugin.Read(strings.NewReader(config)); err != nil {
			t.Errorf("%v:\n%s", err, config)
		}
	}
}

const policy = `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: team}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  overrideRules: [{overriders: {plaintext: [{path: /metadata/annotations, op: add, value: {team: shop}}]}}]
`

func TestWhatIsMissingKeepsAServerFromStarting(t *testing.T) {
	t.Parallel()
	plugins := admission.NewPlugins()
	plugin.Register(plugins)
	for reason, text := range map[string]string{
		"load policies: stat /nowhere":           header + "policies: [/nowhere]",
		"the server has no client for it":        header,
		`unknown field "x"`:                      header + "x: 1",
		"configure admission plugin Usher: read": "kind: Pod",
	} {
		_, err := plugins.InitPlugin(plugin.Name, strings.NewReader(text), admission.PluginInitializers{})
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("error %v, want %q", err, reason)
		}
	}
}
