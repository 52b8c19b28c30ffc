package library_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	commands "github.com/usher-dev/usher/cmd/usher/internal/library"
	"github.com/usher-dev/usher/library"
)

// TestInstallStops has API servers refuse to read or to write any policy: that is said once.
func TestInstallStops(t *testing.T) {
	t.Parallel()
	packs, chosen := chosenOf(t, "networking")
	resource := v1alpha1.GroupVersion.WithResource("clusterobjectpolicies").GroupResource()
	for _, row := range []struct {
		reason, verb string
		err          error
		says         string
	}{
		{"no CRDs", "get", apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "x", "404 page not found", 0, true), "the cluster does not know the kind ClusterObjectPolicy: install Usher first"},
		{"no right to read", "get", apierrors.NewForbidden(resource, "x", errors.New(`User "jane" cannot get resource`)), "needs the verbs get, list, create and patch for clusterobjectpolicies.usher.dev"},
		{"no right to write", "create", apierrors.NewForbidden(resource, "x", errors.New(`User "jane" cannot create resource`)), "needs the verbs get, list, create and patch for clusterobjectpolicies.usher.dev"},
		{"no API server", "get", errors.New("connection refused"), "connection refused"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			client := fake.NewSimpleDynamicClient(runtime.NewScheme())
			client.PrependReactor(row.verb, "clusterobjectpolicies", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, row.err })
			var out, says bytes.Buffer
			err := commands.Install(t.Context(), cli.Streams{Out: &out, Err: &says}, commands.Cluster(client, "", cluster.Warnings(&says), false),
				&commands.Plan{Packs: packs, Policies: chosen, Settings: make([]library.Settings, len(chosen))})
			if err == nil || errors.Is(err, cli.ErrNegative) || !strings.Contains(err.Error(), row.says) || out.Len()+says.Len() > 0 {
				t.Errorf("got %v, and printed %q and %q", err, out.String(), says.String())
			}
		})
	}
}

// TestInstallInCluster is about what is sent to API servers.
func TestInstallInCluster(t *testing.T) {
	t.Parallel()
	packs, chosen := chosenOf(t, "service-types")
	installed := func(old, changed string) *unstructured.Unstructured {
		manifest, err := chosen[0].Manifest(library.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(manifest), old, changed)), &u.Object); err != nil {
			t.Fatal(err)
		}
		// Others have changed these, too.
		u.SetLabels(map[string]string{library.PackLabel: u.GetLabels()[library.PackLabel], "team": "web"})
		u.SetResourceVersion("7")
		u.SetUID("one")
		return &u
	}
	renamed := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		u.SetName("old-types")
		return u
	}
	empty := installed("pack-version: 1.0.0", "pack-version: 0.1.0")
	delete(empty.Object, "spec")
	older := installed("pack-version: 1.0.0", "pack-version: 0.1.0")
	if err := unstructured.SetNestedField(older.Object, "low", "spec", "severity"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		reason   string
		existing *unstructured.Unstructured
		settings library.Settings
		dryRun   bool
		// refused is the error of the API server.
		refused error
		// out and says are parts of the output, and sent is a part of what is sent, empty for nothing.
		out, says, sent string
		err             error
	}{
		{"a new policy", nil, library.Settings{}, false, nil, "applied service-types\n", "", `"validationActions":["Warn"]`, nil},
		{"settings", nil, library.Settings{Action: "Deny", Params: map[string]any{"types": []any{"ClusterIP"}}}, false, nil, "applied service-types\n", "", `"params":{"types":["ClusterIP"]},"validationActions":["Deny"]`, nil},
		{"a dry run", nil, library.Settings{}, true, nil, "would apply service-types\n", "", `"validationActions":["Warn"]`, nil},
		{"nothing to do", installed("", ""), library.Settings{}, false, nil, "service-types unchanged\n", "", "", nil},
		{"another version keeps its bindings", installed("pack-version: 1.0.0", "pack-version: 0.1.0"), library.Settings{}, false, nil, "applied service-types\n", "service-types: version 0.1.0 to 1.0.0\n", `"name":"everywhere"`, nil},
		{"and their actions", installed("[Warn]", "[Deny]"), library.Settings{Params: map[string]any{"types": []any{"ClusterIP"}}}, false, nil, "applied service-types\n", "+", `"validationActions":["Deny"]`, nil},
		{"a later version", installed("pack-version: 1.0.0", "pack-version: 1.10.0"), library.Settings{}, false, nil, "", "version 1.10.0 is installed, which is newer than 1.0.0 of the pack", "", cli.ErrNegative},
		{"a change of the policy itself", installed("severity: high", "severity: low"), library.Settings{}, false, nil, "applied service-types\n", "  overwrites changes that were made after the installation: severity\n", `"severity":"high"`, nil},
		{"another version with the same rule", installed("pack-version: 1.0.0", "pack-version: 0.1.0"), library.Settings{}, false, nil, "applied service-types\n", "  decides as before\n", `"kind"`, nil},
		{"and another action", installed("pack-version: 1.0.0", "pack-version: 0.1.0"), library.Settings{Action: "Deny"}, false, nil, "applied service-types\n", "service-types: version 0.1.0 to 1.0.0\n  binding everywhere only warned, and denies now: --namespaces NAMESPACE denies in that one alone\n  @@", `"validationActions":["Deny"]`, nil},
		{"another severity, and another action", older, library.Settings{Action: "Deny"}, false, nil, "applied service-types\n", "  changes severity\n", `"severity":"high"`, nil},
		{"a policy without a spec", empty, library.Settings{}, false, nil, "applied service-types\n", "  changes category, description, ", `"name":"everywhere"`, nil},
		{"a policy that the pack does not have any more", renamed(installed("", "")), library.Settings{}, false, nil, "applied service-types\n",
			"pack networking 1.0.0 does not have the policy old-types any more, which stays in force: move its bindings to the policy that replaces it, if there is one, and remove it with 'kubectl delete clusterobjectpolicies old-types'\n", `"kind"`, nil},
		{"a policy of somebody else", installed("usher.dev/pack:", "other:"), library.Settings{}, false, nil, "", "not of a pack", "", cli.ErrNegative},
		{"a policy of another pack", installed("usher.dev/pack: networking", "usher.dev/pack: mine"), library.Settings{}, false, nil, "", "of another pack, mine", "", cli.ErrNegative},
		{"an API server that refuses", nil, library.Settings{}, false, apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("clusterobjectpolicies").GroupResource(), "service-types", errors.New("no rights")), "", "no rights", `"kind"`, cli.ErrNegative},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			objects := []runtime.Object{}
			if row.existing != nil {
				objects = append(objects, row.existing)
			}
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
				v1alpha1.GroupVersion.WithResource("clusterobjectpolicies"): "ClusterObjectPolicyList",
			}, objects...)
			var sent string
			check := func(fieldManager string, dryRun []string) {
				if fieldManager != commands.FieldManager || (len(dryRun) > 0) != row.dryRun || row.dryRun && dryRun[0] != metav1.DryRunAll {
					t.Errorf("field manager %s, dry run %s", fieldManager, dryRun)
				}
			}
			client.PrependReactor("patch", "clusterobjectpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
				patch, ok := action.(clienttesting.PatchActionImpl)
				if !ok || patch.PatchType != types.ApplyPatchType || row.existing == nil {
					t.Errorf("expected a server-side apply of a policy that exists, got %v", action)
				}
				check(patch.PatchOptions.FieldManager, patch.PatchOptions.DryRun)
				sent = string(patch.Patch)
				return true, &unstructured.Unstructured{}, row.refused
			})
			client.PrependReactor("create", "clusterobjectpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
				creation, ok := action.(clienttesting.CreateActionImpl)
				if !ok {
					t.Fatalf("expected a creation, got %v", action)
				}
				check(creation.CreateOptions.FieldManager, creation.CreateOptions.DryRun)
				text, err := json.Marshal(creation.Object)
				if err != nil {
					t.Error(err)
				}
				sent = string(text)
				return true, creation.Object, row.refused
			})
			var out, says bytes.Buffer
			s := cli.Streams{Out: &out, Err: &says}
			err := commands.Install(t.Context(), s, commands.Cluster(client, "", cluster.Warnings(&says), row.dryRun), &commands.Plan{Packs: packs, Policies: chosen, Settings: []library.Settings{row.settings}})
			if !errors.Is(err, row.err) {
				t.Errorf("error: expected %v, got %v", row.err, err)
			}
			told, wait := says.String(), ""
			if strings.Contains(row.out, "applied") {
				wait = "to wait until they are enforced: kubectl wait --for=condition=Enforced --timeout=1m clusterobjectpolicies service-types\n"
			}
			before, waits := strings.CutSuffix(told, wait)
			if out.String() != row.out || !waits || !strings.Contains(before, row.says) || row.says == "" && before != "" {
				t.Errorf("printed %q and %q, want %q at the end", out.String(), told, wait)
			}
			if !strings.Contains(sent, row.sent) || row.sent == "" && sent != "" {
				t.Errorf("sent %s", sent)
			}
			if strings.Contains(sent, `"team"`) {
				t.Errorf("what others have set is applied: %s", sent)
			}
			replaces := row.existing != nil && row.existing.GetName() == chosen[0].Name && sent != ""
			if got := strings.Contains(sent, `"resourceVersion":"7"`) && strings.Contains(sent, `"uid":"one"`); got != replaces {
				t.Errorf("another version could be replaced: %s", sent)
			}
		})
	}
}

// TestDryRunPrintsManifests: they have the params of the cluster, and the action that is tried. What is said is apart.
func TestDryRunPrintsManifests(t *testing.T) {
	t.Parallel()
	packs, chosen := chosenOf(t, "service-types")
	manifest, err := chosen[0].Manifest(library.Settings{Params: map[string]any{"types": []any{"NodePort"}}})
	if err != nil {
		t.Fatal(err)
	}
	var existing unstructured.Unstructured
	if err := yaml.Unmarshal(manifest, &existing.Object); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		v1alpha1.GroupVersion.WithResource("clusterobjectpolicies"): "ClusterObjectPolicyList",
	}, &existing)
	client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.Unstructured{}, nil
	})
	var out, says bytes.Buffer
	plan := &commands.Plan{Packs: packs, Policies: chosen, Settings: []library.Settings{{Action: "Deny"}}, Manifests: true}
	if err := commands.Install(t.Context(), cli.Streams{Out: &out, Err: &says}, commands.Cluster(client, "", cluster.Warnings(&says), true), plan); err != nil {
		t.Fatal(err)
	}
	var printed unstructured.Unstructured
	if err := yaml.Unmarshal(out.Bytes(), &printed.Object); err != nil {
		t.Fatalf("%v in:\n%s", err, &out)
	}
	bindings, _, err := unstructured.NestedSlice(printed.Object, "spec", "bindings")
	want := []any{map[string]any{"name": "everywhere", "params": map[string]any{"types": []any{"NodePort"}}, "validationActions": []any{"Deny"}}}
	if diff := gocmp.Diff(want, bindings); diff != "" || err != nil {
		t.Errorf("the bindings (-want +got): %v\n%s", err, diff)
	}
	if !strings.Contains(says.String(), "would apply service-types\n") {
		t.Errorf("it says %q", &says)
	}
}

// TestInstallInNamespace: policies of a namespace are written there, and only there.
func TestInstallInNamespace(t *testing.T) {
	t.Parallel()
	packs, chosen := chosenOf(t, "service-types")
	of := v1alpha1.GroupVersion.WithResource("objectpolicies")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{of: "ObjectPolicyList"})
	var out, says bytes.Buffer
	target := commands.Cluster(client, "shop", cluster.Warnings(&says), false)
	plan := &commands.Plan{Packs: packs, Policies: chosen, Settings: []library.Settings{{Within: "shop"}}}
	if err := commands.Install(t.Context(), cli.Streams{Out: &out, Err: &says}, target, plan); err != nil {
		t.Fatal(err)
	}
	written, err := client.Resource(of).Namespace("shop").Get(t.Context(), "service-types", metav1.GetOptions{})
	if err != nil || written.GetKind() != "ObjectPolicy" {
		t.Errorf("got %v, %v; printed %s", written, err, says.String())
	}
	if wait := target.Wait([]*library.Policy{&chosen[0], {Name: "other", Pack: "a"}}); wait != "kubectl wait --for=condition=Enforced --timeout=1m objectpolicies -n shop -l 'usher.dev/pack in ("+chosen[0].Pack+", a)'" {
		t.Error(wait)
	}
	if remove := target.Remove("x"); remove != "kubectl delete objectpolicies -n shop x" {
		t.Error(remove)
	}
}

// TestInstallWarnsOfLockout has no webhook that could warn.
func TestInstallWarnsOfLockout(t *testing.T) {
	t.Parallel()
	packs, err := library.Packs()
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := library.Select(packs, []string{"required-labels", "service-types"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		action string
		dryRun bool
		says   string
	}{
		{"Deny", false, "Warning: required-labels: spec.validations[0]: the rule refuses requests without which a cluster cannot recover: "},
		{"Deny", true, "Warning: required-labels: spec.validations[0]: the rule refuses requests without which a cluster cannot recover: "},
		{"Warn", false, ""},
	} {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			v1alpha1.GroupVersion.WithResource("clusterobjectpolicies"): "ClusterObjectPolicyList",
		})
		var says, before bytes.Buffer
		warnings := cluster.Warnings(&says)
		client.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			before.Write(says.Bytes())
			return false, nil, nil
		})
		err := commands.Install(t.Context(), cli.Streams{Out: &bytes.Buffer{}, Err: &says}, commands.Cluster(client, "", warnings, row.dryRun),
			&commands.Plan{Packs: packs, Policies: chosen, Settings: []library.Settings{{Action: row.action}, {Action: row.action}}})
		if err != nil || !strings.HasPrefix(says.String(), row.says) || strings.Count(says.String(), "Warning:") != strings.Count(row.says, "Warning:") {
			t.Errorf("%+v: got %v, and printed %s", row, err, says.String())
		}
		if !strings.HasPrefix(before.String(), row.says) {
			t.Errorf("%+v: before the policy was written, printed %q", row, before.String())
		}
	}
}

// chosenOf returns the policies of a pack, or one policy, and all packs.
func chosenOf(t *testing.T, name string) (packs []library.Pack, chosen []library.Policy) {
	t.Helper()
	packs, err := library.Packs()
	if err != nil {
		t.Fatal(err)
	}
	chosen, err = library.Select(packs, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return packs, chosen
}
