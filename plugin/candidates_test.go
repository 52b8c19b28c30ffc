package plugin_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/kubernetes/scheme"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/plugin"
)

const (
	unnamed   = `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}, %s}}`
	inCluster = `{apiVersion: usher.dev/v1alpha1, kind: ClusterPolicyCandidate, metadata: {name: c}, spec: {%s}}`
)

// newPlugin returns an initialized plugin with these files.
func newPlugin(t *testing.T, texts ...string) *plugin.Plugin {
	t.Helper()
	folder := t.TempDir()
	for i, text := range texts {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(i, ".yaml")), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plugins := admission.NewPlugins()
	plugin.Register(plugins)
	drained := make(chan struct{})
	t.Cleanup(func() { close(drained) })
	made, err := plugins.InitPlugin(plugin.Name, strings.NewReader(fmt.Sprintf("%spolicies: [%q]", header, folder)), initializer.New(nil, nil, nil, nil, nil, nil, drained, nil))
	if err != nil {
		t.Fatal(err)
	}
	own, ok := made.(*plugin.Plugin)
	if !ok {
		t.Fatalf("%T", made)
	}
	return own
}

// TestCandidatesAsInForce: what a candidate counts of a session at a plugin is how the answers of one differ that has
// what it embeds in force, and its own answers are those without it.
func TestCandidatesAsInForce(t *testing.T) {
	t.Parallel()
	policy := func(spec string) string { return fmt.Sprintf(unnamed, spec) }
	denies := func(label string) string {
		return `validations: [{expression: "!('` + label + `' in object.metadata.?labels.orValue({}))"}]`
	}
	const sets = `mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels/x", value: "set"}]'}}]`
	embeds := func(p string) string { return fmt.Sprintf(inCluster, "policies: ["+p+"]") }
	for reason, change := range map[string]struct{ was, is, candidate string }{
		"a new policy":     {"", policy(denies("x")), embeds(policy(denies("x")))},
		"another version":  {policy(denies("x")), policy(denies("y")), embeds(policy(denies("y")))},
		"removed":          {policy(denies("x")), "", fmt.Sprintf(inCluster, "remove: true, replaces: {kind: ClusterObjectPolicy, name: p}")},
		"a mutation":       {"", policy(sets), embeds(policy(sets))},
		"no longer denied": {policy(denies("x")), policy(sets), embeds(policy(sets))},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			was, is, shadow := newPlugin(t, change.was), newPlugin(t, change.is), newPlugin(t, change.was, change.candidate)
			var want rule.CandidateCounts
			for i := range 40 {
				labels := map[string]string{"a": ""}
				if i%2 == 0 {
					labels["x"] = ""
				}
				if i%3 == 0 {
					labels["y"] = ""
				}
				before, after, beside := answered(t, was, labels), answered(t, is, labels), answered(t, shadow, labels)
				if before != beside {
					t.Errorf("a candidate has an effect: %q, not %q", beside, before)
				}
				switch {
				case after == "denied" && before != after:
					want.NewlyDenied++
				case before == "denied" && before != after:
					want.NewlyAllowed++
				}
				// Changes are compared before validations deny.
				if strings.Contains(change.is, "mutations") {
					want.Changed++
				}
			}
			got := await(t, shadow)
			if got.Skipped > 0 || got.Seen == 0 || got.Errors > 0 {
				t.Errorf("counted %+v", got)
			}
			if got.NewlyDenied != want.NewlyDenied || got.NewlyAllowed != want.NewlyAllowed || got.Changed != want.Changed {
				t.Errorf("counted %+v, in force %+v", got, want)
			}
		})
	}
}

// answered returns the answer of a plugin to the creation of a pod: its labels, or that it is denied.
func answered(t *testing.T, p *plugin.Plugin, labels map[string]string) string {
	t.Helper()
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: maps.Clone(labels)}}
	a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "shop", "web",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
	objects := admission.NewObjectInterfacesFromScheme(scheme.Scheme)
	if err := p.Admit(t.Context(), a, objects); err != nil {
		return "denied"
	}
	if err := p.Validate(t.Context(), a, objects); err != nil {
		return "denied"
	}
	return fmt.Sprint(pod.Labels)
}

// await waits until a plugin has counted all.
func await(t *testing.T, p *plugin.Plugin) rule.CandidateCounts {
	t.Helper()
	last, since := rule.CandidateCounts{}, time.Now()
	for time.Since(since) < time.Second {
		states := p.Candidates()
		if len(states) != 1 || states[0].NotEffective != "" {
			t.Fatalf("candidates: %+v", states)
		}
		if states[0].Counts != last {
			last, since = states[0].Counts, time.Now()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return last
}

// TestCandidatesAreLogged: what has changed is logged once a minute, and nothing of any request.
func TestCandidatesAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		states := []rule.CandidateState{{Ref: usher.PolicyRef{Kind: "PolicyCandidate", Namespace: "shop", Name: "c"}, Since: time.Now()}, {Ref: usher.PolicyRef{Kind: "PolicyCandidate", Namespace: "shop", Name: "d"}, NotEffective: "why"}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+30*time.Second)
		defer cancel()
		began := time.Now()
		now := func() []rule.CandidateState {
			if time.Since(began) > 5*time.Minute {
				states[0].Counts.Seen = 7
			}
			return states
		}
		if err := plugin.LogCandidates(ctx, now, slog.New(slog.NewTextHandler(&text, nil))); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(text.String(), "\n"); lines != 3 || !strings.Contains(text.String(), "seen=7") || !strings.Contains(text.String(), "reason=why") {
			t.Errorf("%d lines:\n%s", lines, text.String())
		}
	})
}
