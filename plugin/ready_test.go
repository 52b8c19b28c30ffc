package plugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/usher-dev/usher/plugin"
)

func TestReadiness(t *testing.T) {
	t.Parallel()
	const broken = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: broken}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "object."}]
`
	for _, row := range []struct{ reason, policies, err string }{
		{"a policy in force", policy, ""},
		{"one that does not compile", broken, "no policies in force"},
		{"one of two", broken + "---" + policy, ""},
		{"no policy", "# later", "no policies in force"},
	} {
		folder := t.TempDir()
		file := filepath.Join(folder, "policy.yaml")
		if err := os.WriteFile(file, []byte(row.policies), 0o600); err != nil {
			t.Fatal(err)
		}
		plugins := admission.NewPlugins()
		var ready healthz.HealthChecker = plugin.Register(plugins)
		if err := ready.Check(nil); err != nil {
			t.Errorf("%s: a server without the plugin: %v", row.reason, err)
		}
		drained := make(chan struct{})
		t.Cleanup(func() { close(drained) })
		config := strings.NewReader(fmt.Sprintf("%spolicies: [%q]", header, folder))
		if _, err := plugins.InitPlugin(plugin.Name, config, initializer.New(nil, nil, nil, nil, nil, nil, drained, nil)); err != nil {
			t.Fatal(err)
		}
		check := func(done func(error) bool) error {
			for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				if err := ready.Check(nil); done(err) || time.Now().After(end) {
					return err
				}
			}
		}
		err := check(func(err error) bool { return err == nil || !strings.Contains(err.Error(), "not loaded yet") })
		if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: error %v, want %q", row.reason, err, row.err)
		}
		if row.err == "" {
			continue
		}
		// It becomes ready with the first policy.
		if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := check(func(err error) bool { return err == nil }); err != nil {
			t.Errorf("%s, and then one: %v", row.reason, err)
		}
	}
}
