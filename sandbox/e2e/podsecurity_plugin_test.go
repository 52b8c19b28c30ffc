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
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/library"
)

// levelLabel is the label of namespaces whose pods the packs decide about.
const levelLabel = "usher.dev/pod-security"

// A pair is two namespaces that require the same: in one the plugin PodSecurity decides, and in the
// other the policies of a pack.
type pair struct {
	client kubernetes.Interface
	heard  *heard
	// plugin and packs are the names of the namespaces.
	plugin, packs  string
	level, version string
}

// TestPodSecurityPlugin sends the pods of Kubernetes, and Deployments of them, to API servers on
// which both the plugin and the packs decide: the verdict and the text are the same.
func TestPodSecurityPlugin(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	folder := filepath.Join(podSecurityModule(t), "test", "testdata")
	versions, step := []string{"v1.34"}, 10
	if *whole {
		versions, step = nil, 1
		entries, err := os.ReadDir(filepath.Join(folder, "baseline"))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			versions = append(versions, entry.Name())
		}
	}
	pairs := r.pairs(t, versions)
	sent := 0
	for _, p := range pairs {
		files, err := filepath.Glob(filepath.Join(folder, p.level, p.version, "*", "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d pods for %s %s, %v", len(files), p.level, p.version, err)
		}
		for i, file := range files {
			if i%step > 0 {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			one := &corev1.Pod{}
			if err := yaml.UnmarshalStrict(text, one); err != nil {
				t.Fatal(err)
			}
			_, err = p.compare(t, file, func(ctx context.Context, namespace string) error { return p.createPod(ctx, namespace, one) })
			if want := strings.Contains(file, "/fail/"); (err != nil) != want {
				t.Errorf("%s: refused with %v", file, err)
			}
			p.compare(t, file+" in a Deployment", func(ctx context.Context, namespace string) error { return p.createDeployment(ctx, namespace, one) })
			sent++
		}
	}
	t.Logf("%d pods at %d versions, and as many Deployments", sent, len(versions))
	last := pairs[len(pairs)-1]
	r.compareUpdates(t, &pair{client: last.client, heard: last.heard, plugin: r.Namespace(t), packs: r.Namespace(t), level: last.level, version: last.version})
}

// compareUpdates changes pods that were created before restricted counted: bad, which violates it,
// and good.
func (r *rig) compareUpdates(t *testing.T, p *pair) {
	t.Helper()
	no, yes := false, true
	hardened := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	for _, namespace := range []string{p.plugin, p.packs} {
		for name, security := range map[string]*corev1.SecurityContext{"bad": nil, "good": hardened} {
			container := corev1.Container{Name: "main", Image: "registry.example/main:1", SecurityContext: security, Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2m")},
			}}
			if _, err := p.client.CoreV1().Pods(namespace).Create(testContext(t), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container}, InitContainers: []corev1.Container{{Name: "init", Image: "registry.example/init:1", SecurityContext: security}}},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.enforce(t)
	debug := func(security *corev1.SecurityContext) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: "registry.example/debug:1", SecurityContext: security, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}}}
		}
	}
	for _, test := range []struct {
		reason      string
		pod         string
		subresource string
		change      func(*corev1.Pod)
		denied      bool
	}{
		{"labels do not matter", "bad", "", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "other"} }, false},
		{"fields that no check reads do not matter", "bad", "", func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(60)) }, false},
		{"annotations do not matter, also those that a check reads", "bad", "", func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
		}, false},
		{"another image is a new program", "bad", "", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "registry.example/main:2" }, true},
		{"so is one of an init container", "bad", "", func(pod *corev1.Pod) { pod.Spec.InitContainers[0].Image = "registry.example/init:2" }, true},
		{"a pod that meets the level may have other images", "good", "", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "registry.example/main:2" }, false},
		{"an ephemeral container violates the level", "good", "ephemeralcontainers", debug(nil), true},
		{"an ephemeral container meets the level", "good", "ephemeralcontainers", debug(hardened), false},
		{"all containers of a pod count when it gets an ephemeral one", "bad", "ephemeralcontainers", debug(hardened), true},
		{"the status is not decided about", "bad", "status", func(pod *corev1.Pod) { pod.Status.Message = "other" }, false},
		{"resources do not matter", "bad", "resize", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
		}, false},
	} {
		if denied, err := p.compare(t, test.reason, func(ctx context.Context, namespace string) error {
			return p.update(ctx, namespace, test.pod, test.subresource, test.change)
		}); denied != test.denied || !denied && err != nil {
			t.Errorf("%s: denied is %t: %v", test.reason, denied, err)
		}
	}
}

// enforce has both namespaces require the level, and waits until they do.
func (p *pair) enforce(t *testing.T) {
	t.Helper()
	p.label(t, p.plugin, map[string]string{
		"pod-security.kubernetes.io/enforce": p.level, "pod-security.kubernetes.io/enforce-version": p.version,
		"pod-security.kubernetes.io/warn": p.level, "pod-security.kubernetes.io/warn-version": p.version,
	})
	p.label(t, p.packs, map[string]string{levelLabel: p.level + "-" + p.version})
	host := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "main", Image: "registry.example/main"}}}}
	eventually(t, "the packs to act", func() error {
		return wantDenied(p.createPod(testContext(t), p.packs, host), "host namespaces (hostNetwork=true)")
	})
	eventually(t, "the plugin to act", func() error {
		if err := p.createPod(testContext(t), p.plugin, host); !strings.Contains(text(err), "violates PodSecurity") {
			return fmt.Errorf("it says %w", orNil(err))
		}
		return nil
	})
}

// update changes a pod without keeping it, with the subresource, if any.
func (p *pair) update(ctx context.Context, namespace, name, subresource string, change func(*corev1.Pod)) error {
	pods := p.client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	change(pod)
	o := metav1.UpdateOptions{DryRun: dryRun}
	switch subresource {
	case "ephemeralcontainers":
		_, err = pods.UpdateEphemeralContainers(ctx, name, pod, o)
	case "status":
		_, err = pods.UpdateStatus(ctx, pod, o)
	case "resize":
		_, err = pods.UpdateResize(ctx, name, pod, o)
	default:
		_, err = pods.Update(ctx, pod, o)
	}
	return err
}

// podSecurityModule returns the folder of k8s.io/pod-security-admission.
func podSecurityModule(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatalf("find k8s.io/pod-security-admission: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// pairs installs both packs with a binding for each version, and makes namespaces for each.
func (r *rig) pairs(t *testing.T, versions []string) []*pair {
	t.Helper()
	config, h := r.listening()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var pairs []*pair
	for _, level := range []string{"baseline", "restricted"} {
		var bindings []any
		for i, version := range versions {
			p := &pair{client: client, heard: h, plugin: r.Namespace(t), packs: r.Namespace(t), level: level, version: version}
			pairs = append(pairs, p)
			bindings = append(bindings, map[string]any{
				"name": fmt.Sprint("version-", i), "validationActions": []any{"Deny"},
				"params":         map[string]any{"version": version, "exemptRuntimeClasses": []any{}},
				"matchResources": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{levelLabel: level + "-" + version}}},
			})
		}
		r.installPack(t, "pod-security-"+level, bindings)
	}
	for _, p := range pairs {
		p.enforce(t)
	}
	return pairs
}

// installPack applies a pack, with other bindings if some are given.
func (r *rig) installPack(t *testing.T, name string, bindings []any) {
	t.Helper()
	packs, err := library.Packs()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(packs, func(p library.Pack) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("there is no pack %s", name)
	}
	var applied []*unstructured.Unstructured
	for _, p := range packs[i].Policies {
		settings := library.Settings{}
		if bindings != nil {
			settings.Bindings = boundTo(t, &p, bindings)
		}
		manifest, err := p.Manifest(settings)
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range documents(t, manifest) {
			stored, err := r.apply(testContext(t), policy)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.remove(stored) })
			applied = append(applied, stored)
		}
	}
	for _, policy := range applied {
		r.awaitCondition(t, policy, "Enforced", "True")
	}
}

// boundTo returns the bindings of a policy. Rules that have never changed have no version.
func boundTo(t *testing.T, p *library.Policy, bindings []any) []byte {
	t.Helper()
	var own []any
	for _, b := range bindings {
		binding := maps.Clone(b.(map[string]any))
		params := maps.Clone(binding["params"].(map[string]any))
		if p.Params["version"] == nil {
			delete(params, "version")
		}
		binding["params"] = params
		own = append(own, binding)
	}
	written, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	return written
}

func (p *pair) label(t *testing.T, namespace string, labels map[string]string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.client.CoreV1().Namespaces().Patch(testContext(t), namespace, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (p *pair) createPod(ctx context.Context, namespace string, pod *corev1.Pod) error {
	pod = pod.DeepCopy()
	pod.Name, pod.Namespace = "tried", namespace
	_, err := p.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: dryRun})
	return err
}

func (p *pair) createDeployment(ctx context.Context, namespace string, pod *corev1.Pod) error {
	labels := map[string]string{"app": "tried"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "tried", Namespace: namespace}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: pod.Annotations}, Spec: pod.Spec},
	}}
	_, err := p.client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{DryRun: dryRun})
	return err
}

// compare sends a request to both namespaces, and compares the verdicts and what is said: each control
// of the policies is in the text of the plugin, which has no other. It reports whether the plugin
// denies the request, and its error, which can be of something else.
func (p *pair) compare(t *testing.T, what string, send func(ctx context.Context, namespace string) error) (denied bool, err error) {
	t.Helper()
	p.heard.take()
	errPlugin := send(testContext(t), p.plugin)
	warnedPlugin := p.heard.take()
	errPacks := send(testContext(t), p.packs)
	warnedPacks := p.heard.take()
	_, byPlugin, denied := strings.Cut(text(errPlugin), ": violates PodSecurity \""+p.level+":"+p.version+"\": ")
	byPacks, deniedHere := denial(errPacks)
	if denied != deniedHere {
		t.Errorf("%s: the plugin says %v, and the packs %v", what, errPlugin, errPacks)
		return denied, errPlugin
	}
	if diff := left(byPlugin, controlsOf([]string{byPacks})); denied && diff != "" {
		t.Errorf("%s: the plugin says %q, and the packs %q: %s", what, byPlugin, byPacks, diff)
	}
	if diff := cmp.Diff(strings.ReplaceAll(text(errPlugin), p.plugin, p.packs), text(errPacks)); !denied && diff != "" {
		t.Errorf("%s: another error (-plugin +packs):\n%s", what, diff)
	}
	told, warned := "", false
	for _, w := range warnedPlugin {
		if _, violations, ok := strings.Cut(w, "would violate PodSecurity \""+p.level+":"+p.version+"\": "); ok {
			told, warned = violations, true
		}
	}
	if controls := controlsOf(warnedPacks); warned || len(controls) > 0 {
		if diff := left(told, controls); diff != "" {
			t.Errorf("%s: the plugin warns %q, and the packs %q: %s", what, told, controls, diff)
		}
	}
	return denied, errPlugin
}

// by is the policy at the end of a message, and at the start of the next one.
var by = regexp.MustCompile(` \(ClusterObjectPolicy pod-security-[a-z-]+(; its pods would be denied)?\)(; |$)`)

// about is what a warning about a workload begins with.
var about = regexp.MustCompile(`^Deployment \S+: (spec\.\S+: )?`)

// controlsOf returns what single policies say in messages and warnings.
func controlsOf(messages []string) []string {
	var all []string
	for _, m := range messages {
		for _, one := range by.Split(m, -1) {
			if one != "" && one != m {
				all = append(all, about.ReplaceAllString(one, ""))
			}
		}
	}
	return all
}

// left returns what is left of the text of the plugin without the controls; empty if it has these
// and no others.
func left(text string, controls []string) string {
	for _, c := range controls {
		without := strings.Replace(text, c, "", 1)
		if without == text {
			return "the plugin does not say " + c
		}
		text = without
	}
	if strings.Trim(text, ", ") != "" {
		return "the packs do not say " + text
	}
	return ""
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
