package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// impersonate returns the kubeconfig of the cluster for a user.
func (r *rig) impersonate(t *testing.T, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range config.AuthInfos {
		info.Impersonate = user
	}
	path := filepath.Join(t.TempDir(), user+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// audit runs usher audit --from-cluster.
func (r *rig) audit(t *testing.T, kubeconfig string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return run(t, append([]string{"audit", "--from-cluster", "--kubeconfig", kubeconfig}, args...)...)
}

// run runs usher to its end.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	var out, failures bytes.Buffer
	command := exec.CommandContext(testContext(t), binary, args...)
	command.Stdout, command.Stderr = &out, &failures
	if code = exitCode(command.Run()); code < 0 {
		t.Fatalf("usher %v: %s", args, failures.String())
	}
	return out.String(), failures.String(), code
}

// written writes an object to a file, and returns its name.
func written(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, object.GetName()+".yaml", string(text))
}

// TestAuditOfACluster audits a cluster without its Usher: as an administrator, and as a user of one
// namespace, who sees what is there and what is not theirs to read.
func TestAuditOfACluster(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	shop, bank := r.Namespace(t), r.Namespace(t)
	// Others have objects, too.
	selecting := func(label string) *unstructured.Unstructured {
		policy := needs(t, shop, "", "configmaps", label)
		if err := unstructured.SetNestedStringMap(policy.Object, map[string]string{"audited": shop}, "spec", "matchConstraints", "objectSelector", "matchLabels"); err != nil {
			t.Fatal(err)
		}
		return policy
	}
	r.create(t, parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: bare, namespace: %s, labels: {audited: %[1]s}}, data: {key: planted}}", shop))
	r.create(t, parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: %s, labels: {audited: %[1]s, team: shop}}}", shop))
	r.create(t, parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: bare, namespace: %s, labels: {audited: %s}}}", bank, shop))
	r.enforce(t, selecting("team"))
	r.create(t, parse(t, "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: %s}, spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}", shop))
	anyVersion, oldVersion := needs(t, "any-"+shop, "autoscaling", "horizontalpodautoscalers", "team"), needs(t, "old-"+shop, "autoscaling", "horizontalpodautoscalers", "team")
	rules, _, _ := unstructured.NestedSlice(oldVersion.Object, "spec", "matchConstraints", "resourceRules")
	rules[0].(map[string]any)["apiVersions"] = []any{"v1"} //nolint:forcetypeassert // as it was written
	if err := unstructured.SetNestedSlice(oldVersion.Object, rules, "spec", "matchConstraints", "resourceRules"); err != nil {
		t.Fatal(err)
	}
	versions := []string{"-p", written(t, anyVersion), "-p", written(t, oldVersion), "-n", shop, "--policy"}
	file, owner := written(t, selecting("team")), written(t, selecting("owner"))
	every := written(t, needs(t, "every-"+shop, "", "'*'", "team"))
	broken := written(t, parse(t, "{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: broken}, spec: {validations: [{expression: 'object.'}]}}"))
	tenant := "tenant-" + shop
	r.grant(t, tenant, shop, `[{apiGroups: ["", policy.kcloudlabs.io, usher.dev], resources: [configmaps, overridepolicies, objectpolicies], verbs: [get, list]}]`)
	eventually(t, "the rights are known", func() error {
		_, err := r.as(t, tenant).kube.CoreV1().ConfigMaps(shop).List(testContext(t), metav1.ListOptions{})
		return err
	})
	admin, theirs := r.Kubeconfig, r.impersonate(t, tenant)
	for _, row := range []struct {
		reason, kubeconfig string
		args               []string
		code               int
		// out and err are in the output, each line of them; not is not.
		out, err, not string
	}{
		{"all namespaces", admin, []string{"--policy", shop}, 0, "v1 ConfigMap " + shop + "/bare\nv1 ConfigMap " + bank + "/bare\nlabel team is missing\n2 warn, 1 pass", "", "/good"},
		{"a result that is asked for", admin, []string{"--policy", shop, "--fail-on", "warn"}, 1, "2 warn, 1 pass", "", ""},
		{"one namespace", admin, []string{"--policy", shop, "-n", shop}, 0, "v1 ConfigMap " + shop + "/bare\n1 warn, 1 pass", "", bank},
		{"a policy that would be there", admin, []string{"--what-if", owner, "-n", shop}, 0, "newly warned of: 1 request\nlabel owner is missing\nConfigMap " + shop + "/good", "", bank},
		{"reviews and bindings are no objects", admin, []string{"-p", every, "--policy", "every-" + shop, "-n", shop}, 0, " warn, 1 pass", "", "error"},
		{"a kind with two versions has one result of a policy", admin, append(slices.Clip(versions), "any-"+shop), 0, "autoscaling/v2 HorizontalPodAutoscaler " + shop + "/web\n1 object of 1 kind, 1 policy: 1 warn", "", "autoscaling/v1"},
		{"in the version that the policy names", admin, append(slices.Clip(versions), "old-"+shop), 0, "autoscaling/v1 HorizontalPodAutoscaler " + shop + "/web\n1 object of 1 kind, 1 policy: 1 warn", "", "autoscaling/v2"},
		{"a policy that does not compile", admin, []string{"-p", broken}, 2, "", "broken.yaml", ""},
		{"a policy that is not there", admin, []string{"--policy", "none-" + shop}, 2, "", "none-" + shop, ""},
		{"a user of a namespace", theirs, []string{"-n", shop, "-p", file}, 1, "v1 ConfigMap " + shop + "/bare\nlabel team is missing\nclusterobjectpolicies.usher.dev\n1 warn, ", "", bank},
		{"what they ask about", theirs, []string{"-n", shop, "-p", file, "--fail-on", "warn,fail"}, 1, "1 warn, ", "", bank},
		{"without policies that they may read", theirs, []string{"-n", shop}, 2, "", "you may not list \n3 of usher.dev", ""},
		{"without a namespace", theirs, []string{"-p", file, "--policy", shop}, 1, "not read:  you may not list \n, configmaps, ", "", "warn"},
		{"another namespace", theirs, []string{"-n", bank, "-p", file, "--policy", shop}, 1, "not read:  you may not list configmaps, ", "", "label team"},
	} {
		stdout, stderr, code := r.audit(t, row.kubeconfig, row.args...)
		if code != row.code {
			t.Errorf("%s: exit status %d, want %d: %s%s", row.reason, code, row.code, stdout, stderr)
		}
		for _, check := range []struct{ got, want string }{{stdout, row.out}, {stderr, row.err}} {
			for line := range strings.SplitSeq(check.want, "\n") {
				if !strings.Contains(check.got, strings.TrimSpace(line)) {
					t.Errorf("%s: the output does not have %q:\n%s", row.reason, line, check.got)
				}
			}
		}
		if row.not != "" && strings.Contains(stdout, row.not) || strings.Contains(stdout+stderr, "planted") || strings.Contains(stdout+stderr, "authorizationpolicies") {
			t.Errorf("%s: the output has %q, values, or kinds that say nothing of objects:\n%s", row.reason, row.not, stdout)
		}
	}
	r.auditAsJSON(t, shop)
}

// auditAsJSON reads the result of an audit as programs do.
func (r *rig) auditAsJSON(t *testing.T, namespace string) {
	t.Helper()
	stdout, stderr, code := r.audit(t, r.Kubeconfig, "--policy", namespace, "-n", namespace, "-o", "json")
	var report struct {
		Results []struct {
			Object struct{ Kind, Namespace, Name, UID string }
			Policy struct{ Kind, Name string }
			Status string
		}
		Summary map[string]int
		Kinds   []struct {
			Resource string
			Objects  int
			Complete bool
		}
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 {
		t.Fatalf("exit status %d: %v: %s%s", code, err, stdout, stderr)
	}
	if len(report.Results) != 1 || report.Results[0].Object.Name != "bare" || report.Results[0].Object.UID == "" ||
		report.Results[0].Policy.Name != namespace || report.Results[0].Status != "warn" {
		t.Errorf("results: %+v, want one warning about bare", report.Results)
	}
	if report.Summary["warn"] != 1 || report.Summary["pass"] != 1 {
		t.Errorf("summary: %v", report.Summary)
	}
	if len(report.Kinds) != 1 || !report.Kinds[0].Complete || report.Kinds[0].Objects < 2 {
		t.Errorf("kinds: %+v, want configmaps", report.Kinds)
	}
}
