package library_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	commands "github.com/usher-dev/usher/cmd/usher/internal/library"
	"github.com/usher-dev/usher/library"
)

// TestInstallBesideOthers has others write a policy between reading it and writing it.
func TestInstallBesideOthers(t *testing.T) {
	t.Parallel()
	packs, chosen := chosenOf(t, "service-types")
	resource := v1alpha1.GroupVersion.WithResource("clusterobjectpolicies")
	stored := func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		manifest, err := chosen[0].Manifest(library.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(bytes.ReplaceAll(manifest, []byte("pack-version: 1.0.0"), []byte("pack-version: 0.1.0")), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetUID("one")
		u.SetResourceVersion("1")
		u.SetGeneration(1)
		return u
	}
	const changed, applied = "somebody else has changed or deleted it just now: run the command again", "applied service-types\n"
	for _, row := range []struct {
		reason string
		// between is what others do before each of the first times writes.
		between func(*unstructured.Unstructured)
		times   int
		deleted bool
		// created says that the policy is missing, and then exists.
		created   bool
		out, says string
		writes    int
	}{
		{"nothing", nil, 0, false, false, applied, "", 1},
		{"its status", func(*unstructured.Unstructured) {}, 1, false, false, applied, "", 2},
		{"its status, again and again", func(*unstructured.Unstructured) {}, 1000, false, false, "", changed, 5},
		{"its spec", func(u *unstructured.Unstructured) { u.SetGeneration(2) }, 1, false, false, "", changed, 1},
		{"its pack", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{library.PackLabel: "mine"}) }, 1, false, false, "", changed, 1},
		{"an annotation", func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"a": "b"}) }, 1, false, false, "", changed, 1},
		{"another policy of the name", func(u *unstructured.Unstructured) { u.SetUID("two") }, 1, false, false, "", changed, 1},
		{"creation", nil, 0, false, true, "", "usher: policy service-types is not installed: somebody else has created a policy of this name just now: run the command again\n", 1},
		{"deletion", nil, 0, true, false, "", changed, 1},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "ClusterObjectPolicyList"})
			if !row.created {
				if err := client.Tracker().Create(resource, stored(t), ""); err != nil {
					t.Fatal(err)
				}
			}
			writes := 0
			client.PrependReactor("create", "clusterobjectpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
				writes++
				return true, nil, apierrors.NewAlreadyExists(resource.GroupResource(), "service-types")
			})
			client.PrependReactor("patch", "clusterobjectpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
				patch, _ := action.(clienttesting.PatchActionImpl)
				if writes++; writes <= row.times {
					theirs := stored(t)
					row.between(theirs)
					theirs.SetResourceVersion(fmt.Sprint(writes + 1))
					if err := client.Tracker().Update(resource, theirs, ""); err != nil {
						t.Error(err)
					}
					return true, nil, apierrors.NewConflict(resource.GroupResource(), "service-types", errors.New("modified"))
				}
				if row.deleted {
					if err := client.Tracker().Delete(resource, "", "service-types"); err != nil {
						t.Error(err)
					}
					return true, nil, apierrors.NewConflict(resource.GroupResource(), "service-types", errors.New("uid mismatch"))
				}
				if version := fmt.Sprintf(`"resourceVersion":"%d"`, writes); !strings.Contains(string(patch.Patch), version) {
					t.Errorf("sent without %s: %s", version, patch.Patch)
				}
				return true, &unstructured.Unstructured{}, nil
			})
			var out, says bytes.Buffer
			err := commands.Install(t.Context(), cli.Streams{Out: &out, Err: &says}, commands.Cluster(client, "", cluster.Warnings(&says), false), &commands.Plan{Packs: packs, Policies: chosen, Settings: make([]library.Settings, 1)})
			if errors.Is(err, cli.ErrNegative) == (row.out != "") || out.String() != row.out || !strings.Contains(says.String(), row.says) {
				t.Errorf("got %v, and printed %q and %q", err, out.String(), says.String())
			}
			if writes != row.writes {
				t.Errorf("wrote %d times, expected %d", writes, row.writes)
			}
		})
	}
}
