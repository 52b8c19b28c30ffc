package enforce_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/enforce"
	"github.com/usher-dev/usher/internal/replicas"
)

func installed(manager string) []runtime.Object {
	meta := metav1.ObjectMeta{Name: "usher", Labels: map[string]string{"app.kubernetes.io/managed-by": manager}}
	lease := func(namespace, name, kind string, ago time.Duration) *coordinationv1.Lease {
		renewed, duration := metav1.NewMicroTime(time.Now().Add(-ago)), int32(30)
		l := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed, LeaseDurationSeconds: &duration},
		}
		if kind != "" {
			l.Labels = map[string]string{replicas.LeaseLabel: kind}
		}
		return l
	}
	return []runtime.Object{
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta},
		lease("usher-system", "usher-leader", replicas.LeaseLeader, 0),
		lease("usher-system", "usher-replica-a", replicas.LeaseReplica, 5*time.Second),
		lease("usher-system", "usher-replica-b", replicas.LeaseReplica, time.Hour),
		lease("usher-system", "of-somebody-else", "", 0),
		lease("other", "usher-leader", replicas.LeaseLeader, 0),
		secret("usher-system", "usher-paths", manager),
		secret("usher-system", "usher-proofs", manager),
		secret("usher-system", "usher-cert", manager),
		secret("other", "usher-paths", manager),
	}
}

func secret(namespace, name, manager string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": manager},
	}}
}

var usher = enforce.Installation{Name: "usher", Namespace: "usher-system", PathSecret: "usher-paths", ProofSecret: "usher-proofs"}

// Secrets come between the Leases and what is said about servers.
const (
	kept           = "kept Secret usher-system/usher-proofs with the keys of proofs, for when Usher comes back: --purge deletes it\n"
	deletedSecrets = "deleted Secret usher-system/usher-paths\n" + kept
	purgedSecrets  = "deleted Secret usher-system/usher-paths\ndeleted Secret usher-system/usher-proofs\n" +
		"the proofs of policies are worth nothing without these keys: if Usher comes back, policies that need one are out of force, but for denials, until 'usher authz adopt --all'\n"
)

func withSecret() string {
	return strings.Replace(deletedLeases, servers, deletedSecrets+servers, 1)
}

const nothing = "nothing to delete: no webhook configurations usher, no Leases and no keys in namespace usher-system\n"

const (
	deletedLeases = `deleted Lease usher-system/usher-leader
deleted Lease usher-system/usher-replica-a
deleted Lease usher-system/usher-replica-b
` + servers
	servers = "warning: servers in namespace usher-system may still run, since they have renewed their Leases lately: usher-replica-a; one that runs and has the right to registers again within half a minute. " +
		"Stop them, as with 'kubectl -n usher-system scale deployment usher --replicas=0', and uninstall again\n"
)

func TestUninstall(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset(installed("usher")...)
	for _, want := range []string{
		"deleted ValidatingWebhookConfiguration usher\ndeleted MutatingWebhookConfiguration usher\n" + withSecret(),
		kept + nothing,
	} {
		var out bytes.Buffer
		if err := enforce.Remove(t.Context(), kube, usher, cli.Streams{Out: &out, Err: &out}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	leases, err := kube.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) != 2 {
		t.Errorf("%v, %v: want the two that are not of this Usher", leases.Items, err)
	}
	secrets, err := kube.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 3 {
		t.Errorf("%v, %v: want the certificate, the keys of proofs, and what is not of this Usher", secrets.Items, err)
	}
}

// TestPurge: the keys of proofs go only if they are to, and what follows is said.
func TestPurge(t *testing.T) {
	t.Parallel()
	kube, purged := fake.NewClientset(installed("usher")...), usher
	purged.Purge = true
	for _, want := range []string{
		"deleted ValidatingWebhookConfiguration usher\ndeleted MutatingWebhookConfiguration usher\n" +
			strings.Replace(deletedLeases, servers, purgedSecrets+servers, 1),
		nothing,
	} {
		var out bytes.Buffer
		if err := enforce.Remove(t.Context(), kube, purged, cli.Streams{Out: &out, Err: &out}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestUninstallRemovesRegistrationsFirst(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset(installed("usher")...)
	if err := enforce.Remove(t.Context(), kube, usher, cli.Streams{Out: io.Discard, Err: io.Discard}); err != nil {
		t.Fatal(err)
	}
	var deleted []string
	for _, action := range kube.Actions() {
		if action.GetVerb() == "delete" {
			deleted = append(deleted, action.GetResource().Resource)
		}
	}
	want := []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "leases", "leases", "leases", "secrets"}
	if diff := cmp.Diff(want, deleted); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUninstallLeavesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset(installed("Helm")...)
	var out bytes.Buffer
	err := enforce.Remove(t.Context(), kube, usher, cli.Streams{Out: &out, Err: &out})
	if err == nil || !enforce.Answered(err) || !strings.Contains(err.Error(), "MutatingWebhookConfiguration usher is not Usher's") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(strings.Replace(deletedLeases, servers, kept+servers, 1), out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUninstallGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason   string
		err      error
		answered bool
	}{
		{"not allowed", apierrors.NewForbidden(schema.GroupResource{}, "usher", errors.New("no")), true},
		{"not reached", errors.New("connection refused"), false},
	} {
		kube := fake.NewClientset(installed("usher")...)
		kube.PrependReactor("delete", "validatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, test.err
		})
		var out bytes.Buffer
		err := enforce.Remove(t.Context(), kube, usher, cli.Streams{Out: &out, Err: &out})
		if err == nil || enforce.Answered(err) != test.answered || !strings.HasPrefix(err.Error(), "remove ValidatingWebhookConfiguration usher: ") {
			t.Errorf("%s: got %v", test.reason, err)
		}
		if diff := cmp.Diff("deleted MutatingWebhookConfiguration usher\n"+withSecret(), out.String()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

// TestUninstallSaysWhoStillAsks: that API servers ask about authorization is configured in files of theirs.
func TestUninstallSaysWhoStillAsks(t *testing.T) {
	t.Parallel()
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range api.Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	for kind, warns := range map[string]bool{"ClusterAuthorizationPolicy": true, "AuthorizationPolicy": true, "ClusterObjectPolicy": false} {
		policy := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "usher.dev/v1alpha1", "kind": kind, "metadata": map[string]any{"name": "p", "namespace": "shop"}}}
		var says bytes.Buffer
		enforce.StillAsked(t.Context(), dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, policy), cli.Streams{Err: &says})
		if strings.HasPrefix(says.String(), "warning: there are authorization policies: ") != warns {
			t.Errorf("%s: %q", kind, says.String())
		}
	}
}
