package deploy_test

import (
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/usher-dev/usher/internal/report/openreports"
)

func TestChartIsClean(t *testing.T) {
	t.Parallel()
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if text, err := helm(t, append([]string{"lint", "--strict", "--kube-version", kubernetes, chart}, r.args...)...); err != nil {
				t.Errorf("helm lint: %v\n%s", err, text)
			}
		})
	}
}

func TestObjectsArePlacedAndNamed(t *testing.T) {
	t.Parallel()
	clusterScoped := []string{"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			for _, object := range r.objects(t) {
				kind := object.GetObjectKind().GroupVersionKind().Kind
				o, err := meta.Accessor(object)
				if err != nil {
					t.Fatal(err)
				}
				want := namespace
				if slices.Contains(clusterScoped, kind) {
					want = ""
				}
				if kind == "RoleBinding" && strings.HasSuffix(o.GetName(), "-api") {
					// It is where the Role is that it grants: the one of Kubernetes.
					want = "kube-system"
				}
				if o.GetNamespace() != want {
					t.Errorf("%s %s is in namespace %q, want %q", kind, o.GetName(), o.GetNamespace(), want)
				}
				// What a hook replaces has the same name.
				if key := kind + " " + o.GetName() + o.GetAnnotations()["helm.sh/hook"]; seen[key] || o.GetName() == "" {
					t.Errorf("%s is not a name of its own", key)
				} else {
					seen[key] = true
				}
				if o.GetLabels()["app.kubernetes.io/name"] != "usher" {
					t.Errorf("%s %s does not say that it is part of usher: %v", kind, o.GetName(), o.GetLabels())
				}
			}
		})
	}
}

func TestChartHasTheCRDs(t *testing.T) {
	t.Parallel()
	ours, err := filepath.Glob("crds/*.yaml")
	if err != nil || len(ours) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	charts, err := filepath.Glob("helm/usher/crds/*")
	if err != nil || len(charts) != len(ours) {
		t.Fatalf("the chart has %d CRDs, want %d: run make generate", len(charts), len(ours))
	}
	var all []byte
	for _, name := range ours {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("helm/usher/crds", filepath.Base(name)))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s differs in the chart: run make generate", name)
		}
		all = append(all, want...)
		decode(t, want)
	}
	// A release with its chart has to fit into a Secret, which holds 1 MiB. Helm compresses it.
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(all); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if compressed.Len() > 100_000 {
		t.Errorf("the CRDs have %d bytes when compressed, want at most 100000", compressed.Len())
	}
}

// The definitions of reports are installed only when they are asked for. They are marked as installed by
// the chart, so that only those are deleted, by usher uninstall and not by Helm.
func TestDefinitionsOfReports(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set  string
		want []string
	}{
		{"audit.enabled=true", nil},
		{"reports.installCRDs=true", nil},
		{"audit.enabled=true,reports.installCRDs=true", []string{"clusterreports.openreports.io", "reports.openreports.io"}},
	} {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, definition := range only[*apiextensionsv1.CustomResourceDefinition]((&rendering{args: []string{"--set", test.set}}).objects(t)) {
				got = append(got, definition.Name)
				notes := definition.Annotations
				if notes["helm.sh/resource-policy"] != "keep" || notes[openreports.InstalledByAnnotation] != openreports.Source {
					t.Errorf("%s has the annotations %v", definition.Name, notes)
				}
				if definition.Spec.Group != openreports.Group || definition.Spec.Versions[0].Name != openreports.Version {
					t.Errorf("%s is of %s/%s", definition.Name, definition.Spec.Group, definition.Spec.Versions[0].Name)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestManifestsAreTheDefaultChart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("manifests/usher.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := names(t, decode(t, text))
	r := &rendering{args: []string{"--include-crds", "--no-hooks", "--set", "createNamespace=true"}}
	if diff := cmp.Diff(names(t, r.objects(t)), got); diff != "" {
		t.Errorf("manifests/usher.yaml (-chart +file), run make generate:\n%s", diff)
	}
}

// The roles of tenants are in a file, for those who install without Helm.
func TestManifestOfTenantsIsTheChart(t *testing.T) {
	t.Parallel()
	want, err := helm(t, "template", "usher", "deploy/helm/usher", "--namespace", namespace, "--set", "tenants.aggregateRoles=true",
		"--kube-version", kubernetes, "--show-only", "templates/tenants.yaml")
	if err != nil {
		t.Fatal(want)
	}
	got, err := os.ReadFile("manifests/tenants.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("# Code generated by make generate. DO NOT EDIT.\n"+want, string(got)); diff != "" {
		t.Errorf("manifests/tenants.yaml (-chart +file), run make generate:\n%s", diff)
	}
}

// The namespace of the manifests has the labels of Pod Security, which its pods meet: TestPodsAreConfined.
func TestNamespaceIsRestricted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("manifests/usher.yaml")
	if err != nil {
		t.Fatal(err)
	}
	space := one[*corev1.Namespace](t, decode(t, text))
	for _, mode := range []string{"enforce", "audit", "warn"} {
		if got := space.Labels["pod-security.kubernetes.io/"+mode]; got != "restricted" {
			t.Errorf("%s is %q, want restricted", mode, got)
		}
	}
}

func names(t *testing.T, objects []runtime.Object) []string {
	t.Helper()
	var found []string
	for _, object := range objects {
		o, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, object.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
	}
	return found
}

func TestPodsAreConfined(t *testing.T) {
	t.Parallel()
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for name, pod := range pods(r.objects(t)) {
				if diff := cmp.Diff(restricted(), pod.Spec.SecurityContext); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				for _, c := range pod.Spec.Containers {
					no, yes := false, true
					want := &corev1.SecurityContext{
						AllowPrivilegeEscalation: &no,
						ReadOnlyRootFilesystem:   &yes,
						Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					}
					if diff := cmp.Diff(want, c.SecurityContext); diff != "" {
						t.Errorf("%s (-want +got):\n%s", name, diff)
					}
					if c.Resources.Limits.Memory().IsZero() {
						t.Errorf("%s has no limit on memory", name)
					}
				}
			}
		})
	}
}

func restricted() *corev1.PodSecurityContext {
	yes, user := true, int64(65532)
	return &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// pods returns the templates of all pods by the name of what makes them.
func pods(objects []runtime.Object) map[string]corev1.PodTemplateSpec {
	found := map[string]corev1.PodTemplateSpec{}
	for _, d := range only[*appsv1.Deployment](objects) {
		found["Deployment "+d.Name] = d.Spec.Template
	}
	for _, j := range only[*batchv1.Job](objects) {
		found["Job "+j.Name] = j.Spec.Template
	}
	return found
}

func TestPodsSurvive(t *testing.T) {
	t.Parallel()
	objects := renderings[0].objects(t)
	d := one[*appsv1.Deployment](t, objects)
	pod := d.Spec.Template.Spec
	if *d.Spec.Replicas != 3 {
		t.Errorf("%d replicas, want 3", *d.Spec.Replicas)
	}
	if pod.PriorityClassName != "system-cluster-critical" {
		t.Errorf("priority class %q: pods with a policy would displace the one who decides on them", pod.PriorityClassName)
	}
	if pod.Affinity == nil || pod.Affinity.PodAntiAffinity == nil || len(pod.TopologySpreadConstraints) == 0 {
		t.Error("pods do not keep away from each other")
	}
	if budget := one[*policyv1.PodDisruptionBudget](t, objects); budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("%s replicas may be unavailable at once, want 1", budget.Spec.MaxUnavailable)
	}
	c := pod.Containers[0]
	for path, probe := range map[string]*corev1.Probe{"/readyz": c.ReadinessProbe, "/healthz": c.LivenessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Scheme != corev1.URISchemeHTTPS || probe.HTTPGet.Port.StrVal != "webhooks" {
			t.Errorf("probe %v, want %s over HTTPS at the webhook port", probe.HTTPGet, path)
		}
	}
}

func TestPodsEndInOrder(t *testing.T) {
	t.Parallel()
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			pod := one[*appsv1.Deployment](t, r.objects(t)).Spec.Template.Spec
			pause := time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
			text, ok := flag(pod.Containers[0], "shutdown-grace")
			if !ok {
				t.Fatal("no --shutdown-grace")
			}
			grace, err := time.ParseDuration(text)
			if err != nil {
				t.Fatal(err)
			}
			if total := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; total <= pause+grace {
				t.Errorf("the pod is killed after %s; after %s of grace requests in flight have %s to finish", total, pause, grace)
			}
		})
	}
}

// flag returns the value of a flag of a container.
func flag(c corev1.Container, name string) (string, bool) {
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// The command lines of all containers are ones that the binary understands.
func TestFlagsExist(t *testing.T) {
	t.Parallel()
	usher := os.Getenv("USHER_BIN")
	// go caches results by the variables that were read: another build is another result.
	os.Getenv("USHER_BUILD")
	if usher == "" {
		usher = filepath.Join(t.TempDir(), "usher")
		build := exec.Command("go", "build", "-o", usher, "./cmd/usher")
		build.Dir = ".."
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, output)
		}
	}
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for name, pod := range pods(r.objects(t)) {
				for _, c := range pod.Spec.Containers {
					// Flags are parsed before the last one asks for help instead.
					args := append(slices.Clone(c.Args), "--help")
					output, err := exec.Command(usher, args...).CombinedOutput()
					if err != nil || !strings.Contains(string(output), "usher "+c.Args[0]) {
						t.Errorf("%s: usher %s: %v\n%s", name, strings.Join(args, " "), err, output)
					}
				}
			}
		})
	}
}

func TestSelectorsFindTheReplicasOnly(t *testing.T) {
	t.Parallel()
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			objects := r.objects(t)
			deployment := one[*appsv1.Deployment](t, objects)
			selectors := map[string]*metav1.LabelSelector{"Deployment": deployment.Spec.Selector}
			for _, s := range only[*corev1.Service](objects) {
				selectors["Service "+s.Name] = &metav1.LabelSelector{MatchLabels: s.Spec.Selector}
			}
			for _, b := range only[*policyv1.PodDisruptionBudget](objects) {
				selectors["PodDisruptionBudget"] = b.Spec.Selector
			}
			for _, n := range only[*networkingv1.NetworkPolicy](objects) {
				selectors["NetworkPolicy"] = &n.Spec.PodSelector
			}
			for name, selector := range selectors {
				matches, err := metav1.LabelSelectorAsSelector(selector)
				if err != nil {
					t.Fatal(err)
				}
				if !matches.Matches(labels.Set(deployment.Spec.Template.Labels)) {
					t.Errorf("%s does not find the replicas", name)
				}
				for _, job := range only[*batchv1.Job](objects) {
					if matches.Matches(labels.Set(job.Spec.Template.Labels)) {
						t.Errorf("%s finds the Job %s, too", name, job.Name)
					}
				}
			}
		})
	}
}

// Where the objects of the chart name each other, and the flags name objects, the names
// are right.
func TestNamesAgree(t *testing.T) {
	t.Parallel()
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			objects := r.objects(t)
			c := one[*appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0]
			services := map[string]bool{}
			for _, s := range only[*corev1.Service](objects) {
				services[s.Name] = true
				for _, port := range s.Spec.Ports {
					named := func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.StrVal }
					if !slices.ContainsFunc(c.Ports, named) {
						t.Errorf("Service %s leads to the port %s, which is not there", s.Name, port.TargetPort.StrVal)
					}
				}
			}
			if name, _ := flag(c, "service"); !services[name] {
				t.Errorf("--service=%s is none of %v", name, slices.Sorted(maps.Keys(services)))
			}
			if name, _ := flag(c, "webhook-configuration-name"); !registers(objects, name) && r.name != "nothing" {
				t.Errorf("no right to keep the webhook configurations %s", name)
			}
			if in, _ := flag(c, "namespace"); in != namespace {
				t.Errorf("--namespace=%s, want %s", in, namespace)
			}
			if name, ok := flag(c, "cert-secret"); ok && !mayWriteSecret(objects, name) {
				t.Errorf("no right to write the Secret %s", name)
			}
		})
	}
}

func registers(objects []runtime.Object, name string) bool {
	return slices.ContainsFunc(only[*rbacv1.ClusterRole](objects), func(role *rbacv1.ClusterRole) bool {
		return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Resources, "mutatingwebhookconfigurations") && slices.Contains(rule.ResourceNames, name)
		})
	})
}

func mayWriteSecret(objects []runtime.Object, name string) bool {
	for _, role := range only[*rbacv1.Role](objects) {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "secrets") && slices.Contains(rule.ResourceNames, name) && writes(rule) {
				return true
			}
		}
	}
	return false
}
