package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/sandbox"
)

// mutants are wrong versions of a policy.
var mutants = []struct {
	name   string
	change func(spec map[string]any)
}{
	{"a validation is negated", func(spec map[string]any) {
		first := spec["validations"].([]any)[0].(map[string]any)
		first["expression"] = "!(" + first["expression"].(string) + ")"
	}},
	{"only creations", func(spec map[string]any) {
		for _, r := range spec["matchConstraints"].(map[string]any)["resourceRules"].([]any) {
			r.(map[string]any)["operations"] = []any{"CREATE"}
		}
	}},
	{"it warns", func(spec map[string]any) {
		for _, b := range spec["bindings"].([]any) {
			b.(map[string]any)["validationActions"] = []any{"Warn"}
		}
	}},
	{"objects with a label are left out", func(spec map[string]any) {
		spec["matchConstraints"].(map[string]any)["objectSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "app", "operator": "DoesNotExist"}}}
	}},
}

// impactPolicies are policies of the library whose results depend on objects alone.
var impactPolicies = []string{"probes", "distinct-probes", "required-labels", "secrets-in-env", "plain-credentials", "config-map-credentials", "duplicate-env", "termination-grace", "read-only-root", "image-tags"}

// existingObject is the i-th object of a namespace: most comply with all policies, and others break one. Each has an owner
// of its own, by which the report of usher impact names it.
func existingObject(t *testing.T, namespace string, i int) *unstructured.Unstructured {
	t.Helper()
	const flaws = 16
	unless := func(flaw int, good, bad string) string {
		if i%flaws == flaw {
			return bad
		}
		return good
	}
	labels := unless(0, "app.kubernetes.io/name: web, app.kubernetes.io/instance: web, app.kubernetes.io/version: '1', app.kubernetes.io/component: c, app.kubernetes.io/part-of: p, app.kubernetes.io/managed-by: m", "a: b")
	if i%3 == 0 {
		labels += ", app: web"
	}
	meta := fmt.Sprintf(`{name: o-%d, namespace: %s, labels: {%s}, ownerReferences: [{apiVersion: example.com/v1, kind: Owner, name: o-%d, uid: u-%d, controller: true}]}`, i, namespace, labels, i, i)
	if i%7 == 6 {
		return parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: %s, data: {%s}}`, meta, unless(13, "a: b", "password: hunter2hunter2"))
	}
	probe := func(port int) string { return fmt.Sprintf("{httpGet: {port: %d}}", port) }
	pod := fmt.Sprintf(`{%s containers: [{name: c, image: '%s', readinessProbe: %s, %s %s env: [%s%s]}]}`,
		unless(1, "", "terminationGracePeriodSeconds: 0,"), unless(2, "registry.example/a:1", "registry.example/a:latest"),
		probe(80), unless(3, "livenessProbe: "+unless(4, probe(81), probe(80))+",", ""), unless(5, "securityContext: {readOnlyRootFilesystem: true},", ""),
		"{name: A, value: b}", unless(6, "", ", {name: A, value: c}")+unless(7, "", ", {name: PASSWORD, value: hunter2hunter2}")+unless(8, "", ", {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}"))
	if i%2 == 0 {
		return parse(t, `{apiVersion: v1, kind: Pod, metadata: %s, spec: %s}`, meta, pod)
	}
	return parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: %s, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web, %s}}, spec: %s}}}`, meta, strings.TrimSuffix(labels, ", app: web"), pod)
}

// denials are the objects of which admission denies the creation, and those of which it denies an update.
type denials struct{ created, updated map[string]bool }

// writeAgain writes all objects again, as a dry run: each is created, and updated without a change.
func (r *rig) writeAgain(t *testing.T, objects []*unstructured.Unstructured) denials {
	t.Helper()
	created, updated := make([]bool, len(objects)), make([]bool, len(objects))
	var group errgroup.Group
	group.SetLimit(4)
	for i, o := range objects {
		group.Go(func() error {
			resource, err := r.of(o)
			if err != nil {
				return err
			}
			_, err = resource.Update(testContext(t), o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			if updated[i] = refusedByAdmission(err); err != nil && !updated[i] {
				return err
			}
			bare := o.DeepCopy()
			bare.SetResourceVersion("")
			bare.SetUID("")
			bare.SetManagedFields(nil)
			_, err = resource.Create(testContext(t), bare, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			// An object that policies admit exists already.
			if created[i] = refusedByAdmission(err); !created[i] && !apierrors.IsAlreadyExists(err) {
				return errors.Join(errors.New("neither denied nor there"), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	d := denials{map[string]bool{}, map[string]bool{}}
	for i, o := range objects {
		d.created[o.GetName()], d.updated[o.GetName()] = created[i], updated[i]
	}
	return d
}

// impactOnExisting returns the objects with a difference of each kind, as usher impact says.
func (r *rig) impactOnExisting(t *testing.T, old, changed, namespace string) map[string]map[string]bool {
	t.Helper()
	stdout, stderr, code := run(t, "impact", old, changed, "--from-cluster", "--kubeconfig", r.Kubeconfig, "-n", namespace, "--by", "owner", "-o", "json", "--fail-on", "none")
	var report struct {
		Rows []struct{ Kind, Owner string }
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 {
		t.Fatalf("status %d, %v: %s", code, err, stderr)
	}
	found := map[string]map[string]bool{}
	for _, row := range report.Rows {
		if found[row.Kind] == nil {
			found[row.Kind] = map[string]bool{}
		}
		found[row.Kind][strings.TrimPrefix(row.Owner, "Owner ")] = true
	}
	return found
}

// TestImpactOfWhatExists: what usher impact says of the objects of a cluster is what happens when these are written
// again, as a dry run, with the new policies in force. With -whole it is 500 objects and 40 changes.
func TestImpactOfWhatExists(t *testing.T) {
	t.Parallel()
	number, changes := 48, 8
	if *whole {
		number, changes = 500, len(impactPolicies)*len(mutants)
	}
	r := newRig(t, sandbox.Options{Exclusive: true, APIServerArgs: []string{"--disable-admission-plugins=ServiceAccount"}})
	namespace := r.Namespace(t)
	objects := make([]*unstructured.Unstructured, number)
	for i := range objects {
		resource, err := r.of(existingObject(t, namespace, i))
		if err == nil {
			objects[i], err = resource.Create(testContext(t), existingObject(t, namespace, i), metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	process := r.launch(t, r.Kubeconfig)
	if err := errors.Join(process.WaitReady(testContext(t)), process.WaitRegistered(testContext(t), r.RESTConfig)); err != nil {
		t.Fatal(err)
	}
	old, policies := filepath.Join(t.TempDir(), "old"), []*unstructured.Unstructured{}
	stdout, stderr, code := run(t, append([]string{"library", "install", "--action", "Deny"}, impactPolicies...)...)
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, p := range documents(t, []byte(stdout)) {
		writePolicy(t, old, p)
		policies = append(policies, r.enforce(t, p.DeepCopy()))
		policies[len(policies)-1] = p
	}
	before := r.writeAgain(t, objects)
	counts := map[string]int{}
	for n := range changes {
		// A small number of changes has all mutants.
		p, mutant := policies[n*7%len(policies)], mutants[n%len(mutants)]
		if *whole {
			p, mutant = policies[n/len(mutants)], mutants[n%len(mutants)]
		}
		changed := p.DeepCopy()
		mutant.change(changed.Object["spec"].(map[string]any))
		folder := filepath.Join(t.TempDir(), fmt.Sprint("new-", n))
		for _, o := range policies {
			if o == p {
				o = changed
			}
			writePolicy(t, folder, o)
		}
		said := r.impactOnExisting(t, old, folder, namespace)
		r.enforce(t, changed.DeepCopy())
		after := r.writeAgain(t, objects)
		for _, o := range objects {
			name := o.GetName()
			if said["unknown"][name] {
				counts["unknown"]++
				continue
			}
			denied := after.created[name] && !before.created[name] || after.updated[name] && !before.updated[name]
			allowed := !after.created[name] && before.created[name] || !after.updated[name] && before.updated[name]
			if said["denied"][name] != denied || said["allowed"][name] != allowed {
				t.Errorf("%s, %s: %s: newly denied %v, newly allowed %v; usher impact says %v and %v", p.GetName(), mutant.name, name, denied, allowed, said["denied"][name], said["allowed"][name])
			}
			for kind, is := range map[string]bool{"denied": denied, "allowed": allowed, "same": !denied && !allowed} {
				if is {
					counts[kind]++
				}
			}
		}
		r.enforce(t, p.DeepCopy())
	}
	t.Logf("%d objects, %d changes: %v", number, changes, counts)
	if counts["denied"] < changes || counts["allowed"] == 0 || counts["same"] < changes || counts["unknown"] > number*changes/10 {
		t.Errorf("that shows too little: %v", counts)
	}
}

// writePolicy writes a policy to a folder.
func writePolicy(t *testing.T, folder string, policy *unstructured.Unstructured) {
	t.Helper()
	text, err := yaml.Marshal(policy.Object)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, policy.GetName()+".yaml"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
