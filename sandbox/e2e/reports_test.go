package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/result/resulttest"
	"github.com/usher-dev/usher/internal/doctest"
	"github.com/usher-dev/usher/internal/report/openreports"
	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

var (
	reportsResource        = schema.GroupVersionResource{Group: openreports.Group, Version: openreports.Version, Resource: "reports"}
	clusterReportsResource = reportsResource.GroupVersion().WithResource("clusterreports")
)

// installReports applies the CustomResourceDefinitions of the chart.
func (r *rig) installReports(t *testing.T) {
	t.Helper()
	if err := usher.InstallCRDs(testContext(t), r.RESTConfig, filepath.Join(root, "deploy/helm/usher/openreports")); err != nil {
		t.Fatal(err)
	}
}

// failing are audit results of failing pods: so many in each namespace. They do not change.
type failing struct {
	namespaces []string
	each       int
}

func (f failing) Namespaces() []string { return f.namespaces }

func (f failing) Namespace(name string) ([]result.Result, result.Counts) {
	all := make([]result.Result, f.each)
	for i := range all {
		all[i] = result.Result{
			Object: result.Identity{
				APIVersion: "v1", Kind: "Pod", Namespace: name, Name: fmt.Sprintf("storefront-checkout-7f8d9c6b5-%05d", i),
				UID: "0b7f6f5e-5c3f-4b8e-9d55-7a3f0c7e2a10",
			},
			Status: result.Fail, Rule: "spec.validations[0]", Validation: "limits", Field: "spec.containers[0].resources.limits",
			Message:  "container checkout has no memory limit: set spec.containers[0].resources.limits.memory, for example 256Mi, so that it cannot take the memory of its node",
			Category: "Reliability", Severity: "medium",
		}
		all[i].Policy.Kind, all[i].Policy.Name = "ClusterObjectPolicy", "require-limits-"+strconv.Itoa(i%7)
	}
	return all, resulttest.CountsOf(3, all)
}

func (f failing) Changes(uint64) ([]string, uint64, <-chan struct{}) { return nil, 1, nil }

func (f failing) Kinds() []result.KindState {
	return []result.KindState{{Kind: result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod"}, Complete: true}}
}

// TestReportsOfManyFailures has the reports of a thousand failures written, or of as many as
// FAILURES says; 10,000 are what reports are limited to by default, and take 8 MB at most. Then the
// namespaces go, while nobody cares for the reports.
func TestReportsOfManyFailures(t *testing.T) {
	t.Parallel()
	failures := 1000
	if text := os.Getenv("FAILURES"); text != "" {
		var err error
		if failures, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.installReports(t)
	f := failing{each: failures / 5}
	for range 5 {
		f.namespaces = append(f.namespaces, r.Namespace(t))
	}
	w := openreports.New(r.kube.CoreV1().RESTClient(), openreports.Options{})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx, f) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	eventually(t, "all results in reports", func() error {
		if s := w.Status(); s.Err != nil || s.Results != failures || s.Pending > 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	stop()
	running.Wait()

	bytes, reports := 0, 0
	seen := r.readAsPolicyReporter(t, func(text []byte) { bytes, reports = bytes+len(text), reports+1 })
	t.Logf("%d failures are %d reports of %d bytes, %d a failure", failures, reports, bytes, bytes/failures)
	if bytes > failures*800 {
		t.Errorf("%d failures take %d bytes", failures, bytes)
	}
	if len(seen) != failures {
		t.Errorf("a reader of the first subjects sees %d failures, expected %d", len(seen), failures)
	}

	// Nothing of Usher runs.
	for _, name := range f.namespaces {
		if err := r.kube.CoreV1().Namespaces().Delete(testContext(t), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range f.namespaces {
		eventually(t, "namespace "+name+" is gone", func() error {
			_, err := r.kube.CoreV1().Namespaces().Get(testContext(t), name, metav1.GetOptions{})
			if err == nil {
				return fmt.Errorf("it is there")
			}
			return nil
		})
	}
}

// readAsPolicyReporter reads reports in the way of Policy Reporter: an informer on their metadata,
// then one request for each, and the first subject of each result. It returns the messages by
// subject, and calls each with every report.
func (r *rig) readAsPolicyReporter(t *testing.T, each func([]byte)) map[string][]string {
	t.Helper()
	client, err := metadata.NewForConfig(r.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	informers := metadatainformer.NewSharedInformerFactory(client, 0)
	ctx := testContext(t)
	found := map[string]*metav1.PartialObjectMetadata{}
	var mu sync.Mutex
	for _, resource := range []schema.GroupVersionResource{reportsResource, clusterReportsResource} {
		_, err := informers.ForResource(resource).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
			mu.Lock()
			defer mu.Unlock()
			m, ok := o.(*metav1.PartialObjectMetadata)
			if ok {
				found[m.Namespace+"/"+m.Name] = m
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	informers.Start(ctx.Done())
	for resource, synced := range informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("%s are not read", resource)
		}
	}
	seen := map[string][]string{}
	mu.Lock()
	all := maps.Clone(found)
	mu.Unlock()
	for _, m := range all {
		path := "/apis/openreports.io/v1alpha1/clusterreports/" + m.Name
		if m.Namespace != "" {
			path = "/apis/openreports.io/v1alpha1/namespaces/" + m.Namespace + "/reports/" + m.Name
		}
		text, err := r.kube.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		each(text)
		var report unstructured.Unstructured
		if err := json.Unmarshal(text, &report.Object); err != nil {
			t.Fatal(err)
		}
		results, _, _ := unstructured.NestedSlice(report.Object, "results")
		for _, item := range results {
			fields, _ := item.(map[string]any)
			subjects, _ := fields["resources"].([]any)
			if len(subjects) == 0 || fields["source"] != "usher" || fields["policy"] == "" || fields["result"] == "" {
				t.Fatalf("%s/%s has a result that is about nothing: %v", m.Namespace, m.Name, fields)
			}
			subject, _ := subjects[0].(map[string]any)
			key := fmt.Sprint(subject["kind"], " ", subject["namespace"], "/", subject["name"])
			seen[key] = append(seen[key], fmt.Sprint(fields["message"]))
		}
	}
	return seen
}

// reportsDocument is run by TestReports.
const reportsDocument = "reports.md"

// documented runs the commands of the document, in a cluster without the kinds of reports.
func (r *rig) documented(t *testing.T) {
	t.Helper()
	d, err := doctest.Read(filepath.Join(root, "docs", reportsDocument))
	if err != nil {
		t.Fatal(err)
	}
	d.Run(t, doctest.Options{Root: root, Folders: []string{"deploy"}, Path: t.TempDir(), Environment: []string{"KUBECONFIG=" + r.Kubeconfig}, Cluster: true})
}

// TestReports: what is wrong in a namespace is in its reports, and kubectl shows it, as documented.
// Reports of others are left alone, and they go with their namespace and with Usher.
func TestReports(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed")
	}
	r := newRig(t, sandbox.Options{Exclusive: true})
	process := r.serve(t, "--audit")
	eventually(t, "the server says that the kinds of reports are missing", func() error {
		return says(process, "reports: not written since .*reports.installCRDs")
	})
	// Five objects of the document are wrong.
	r.documented(t)
	namespace := r.Namespace(t)
	for i := range 120 {
		r.create(t, configMap(t, namespace, fmt.Sprintf("wrong-%03d", i)))
	}
	if _, err := r.apply(testContext(t), parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: teams}
spec:
  category: Ownership
  severity: high
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %q}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}
  bindings: [{name: everywhere, validationActions: [Deny]}]
  validations:
  - expression: "'team' in object.metadata.labels"
    message: label team is required
`, namespace)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "reports", func() error {
		return says(process, `reports: \d+ with 125 results, namespaces with changes to be written: 0`)
	})

	seen := r.readAsPolicyReporter(t, func([]byte) {})
	if got := seen["ConfigMap "+namespace+"/wrong-007"]; len(seen) != 125 || fmt.Sprint(got) != "[label team is required]" {
		t.Errorf("a reader sees %d objects, and of one %v", len(seen), got)
	}
	out := r.runKubectl(t, "get", "reports", "-n", namespace)
	for _, want := range []string{
		`(?m)^NAME +PASS +FAIL +WARN +ERROR +SKIP +AGE$`, `(?m)^usher-1 +0 +100 +0 +0 +0 `, `(?m)^usher-2 +0 +20 +0 +0 +0 `,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("kubectl get reports does not say %s:\n%s", want, out)
		}
	}
	foreign := r.create(t, parse(t, `
apiVersion: openreports.io/v1alpha1
kind: Report
metadata: {name: of-somebody-else, namespace: %q}
summary: {fail: 1}
`, namespace))

	process.Kill()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	uninstalled, err := exec.CommandContext(testContext(t), binary, "uninstall", "--kubeconfig", r.Kubeconfig).CombinedOutput()
	if err != nil || !strings.Contains(string(uninstalled), "deleted Report "+namespace+"/usher-1\n") {
		t.Errorf("usher uninstall: %v\n%s", err, uninstalled)
	}
	if out := r.runKubectl(t, "get", "reports", "-A", "-o", "name"); strings.TrimSpace(out) != "report.openreports.io/"+foreign.GetName() {
		t.Errorf("after uninstalling there are the reports %s", out)
	}
}

// says returns an error unless /readyz?verbose matches a pattern.
func says(process *usher.Process, pattern string) error {
	text, err := readyz(process)
	if err == nil && !regexp.MustCompile(pattern).MatchString(text) {
		err = fmt.Errorf("not %s in:\n%s", pattern, text)
	}
	return err
}

func (r *rig) runKubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(testContext(t), "kubectl", append([]string{"--kubeconfig", r.Kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return string(out)
}
