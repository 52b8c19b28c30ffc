package authorize_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/authorize"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/replicas"
)

var grants = schema.GroupVersionResource{Group: "usher.dev", Version: "v1alpha1", Resource: "authorizationpolicies"}

// A town is a cluster whose API server asks replicas of Usher in turn.
type town struct {
	t        *testing.T
	kube     *kubefake.Clientset
	policies *dynamicfake.FakeDynamicClient
	keeper   *keyring.Keeper
	replicas []*replica
	// user writes; silent API servers do not ask Usher.
	user   string
	silent bool
	// interrupt, if set, is called once, before the next write.
	interrupt func()
	writes    int
	out, err  bytes.Buffer
}

// A replica reads keys and uses them when it is told to.
type replica struct {
	prover *proof.Prover
	guard  usher.Decider
	state  proof.State
}

func newTown(t *testing.T, replicas int) *town {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{}
	for _, kind := range api.Kinds() {
		kinds[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	w := &town{
		t: t, kube: kubefake.NewClientset(), user: "admin",
		policies: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds),
	}
	w.policies.PrependReactor("patch", "*", w.patch)
	w.keeper = keyring.NewKeeper(w.kube.CoreV1().Secrets("usher-system"), keyring.Options{
		Namespace: "usher-system", Name: proof.DefaultSecret, Purpose: "policy proofs", Log: slog.New(slog.DiscardHandler),
	})
	keys := w.keys()
	for range replicas {
		r := &replica{prover: &proof.Prover{}}
		r.guard = guard.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Allowed(), nil }),
			guard.Options{Proofs: r.prover, May: func(_ context.Context, r *usher.Request) (bool, error) { return r.User.Name == "admin", nil }})
		r.use(proof.State{Sign: keys.Current, Valid: []keyring.Key{keys.Current}, Record: proof.RecordLost(keys.Replaced)})
		w.replicas = append(w.replicas, r)
	}
	return w
}

func (w *town) keys() keyring.Keys {
	w.t.Helper()
	keys, err := w.keeper.Load(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return keys
}

func (r *replica) use(s proof.State) {
	r.state = s
	r.prover.Use(s)
}

// step lets one replica read the keys in the Secret or, if all have, use the current one.
func (w *town) step() {
	keys := w.keys()
	for _, r := range w.replicas {
		if r.state.Valid[0] != keys.Current {
			r.state.Valid = []keyring.Key{keys.Current, keys.Previous}
			r.use(r.state)
			return
		}
	}
	for _, r := range w.replicas {
		if r.state.Sign != keys.Current {
			r.state.Sign = keys.Current
			r.use(r.state)
			return
		}
	}
}

// peers are the replicas as their Leases show them.
func (w *town) peers(context.Context) ([]replicas.Peer, error) {
	var peers []replicas.Peer
	for i, r := range w.replicas {
		words := []string{"proof-sign-" + r.state.Sign.Fingerprint()}
		for _, key := range r.state.Valid {
			words = append(words, "proof-key-"+key.Fingerprint())
		}
		peers = append(peers, replicas.Peer{Identity: fmt.Sprintf("replica-%d", i), Live: true, Serves: words})
	}
	return append(peers, replicas.Peer{Identity: "dead"}), nil
}

// create stores a policy past Usher, with the proof that the first replica makes.
func (w *town) create(name string, annotations map[string]string, proven string) {
	w.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "usher.dev/v1alpha1", "kind": "AuthorizationPolicy",
		"spec": map[string]any{
			"effect": "Allow", "subjects": []any{map[string]any{"users": []any{"jane"}}},
			"rules": []any{map[string]any{"verbs": []any{"get"}, "apiGroups": []any{""}, "resources": []any{"pods"}}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Proven", "status": proven, "observedGeneration": int64(1), "message": "not in force: of " + name,
		}}},
	}}
	o.SetName(name)
	o.SetNamespace("shop")
	o.SetGeneration(1)
	o.SetResourceVersion("1")
	o.SetAnnotations(annotations)
	if annotations == nil {
		text, err := w.replicas[0].prover.Make(w.decode(o))
		if err != nil {
			w.t.Fatal(err)
		}
		o.SetAnnotations(map[string]string{proof.Annotation: text})
	}
	if err := w.policies.Tracker().Create(grants, o, "shop"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *town) decode(o *unstructured.Unstructured) api.Object {
	w.t.Helper()
	raw, err := o.MarshalJSON()
	if err != nil {
		w.t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		w.t.Fatal(err)
	}
	return policy.Object
}

func (w *town) stored(name string) *unstructured.Unstructured {
	w.t.Helper()
	o, err := w.policies.Tracker().Get(grants, "shop", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return o.(*unstructured.Unstructured)
}

func (w *town) proofOf(name string) string { return w.stored(name).GetAnnotations()[proof.Annotation] }

// proven reports whether every replica finds a policy proven.
func (w *town) proven(name string) bool {
	return !slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.prover.Check(w.decode(w.stored(name))).State != api.Proven })
}

// patch is a write of metadata as an API server does it.
func (w *town) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	p := action.(clienttesting.PatchActionImpl)
	if interrupt := w.interrupt; interrupt != nil {
		w.interrupt = nil
		interrupt()
	}
	old := w.stored(p.GetName())
	var change struct {
		Metadata struct {
			ResourceVersion string         `json:"resourceVersion"`
			Annotations     map[string]any `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(p.GetPatch(), &change); err != nil {
		w.t.Fatal(err)
	}
	if change.Metadata.ResourceVersion != old.GetResourceVersion() {
		return true, nil, apierrors.NewConflict(grants.GroupResource(), p.GetName(), errors.New("it has changed"))
	}
	next := old.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, old.GetAnnotations())
	for key, value := range change.Metadata.Annotations {
		delete(annotations, key)
		if text, ok := value.(string); ok {
			annotations[key] = text
		}
	}
	next.SetAnnotations(annotations)
	if !w.silent {
		var message string
		if next, message = w.admit(old, next); message != "" {
			return true, nil, apierrors.NewForbidden(grants.GroupResource(), p.GetName(), errors.New(message))
		}
	}
	w.writes++
	if len(p.PatchOptions.DryRun) == 0 {
		next.SetResourceVersion(old.GetResourceVersion() + "1")
		if err := w.policies.Tracker().Update(grants, next, "shop"); err != nil {
			w.t.Fatal(err)
		}
	}
	return true, next, nil
}

// admit asks one replica to mutate and another one to validate.
func (w *town) admit(old, next *unstructured.Unstructured) (*unstructured.Unstructured, string) {
	w.t.Helper()
	for i, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		d, err := w.replicas[(w.writes+i)%len(w.replicas)].guard.Decide(w.t.Context(), &usher.Request{
			Phase: phase, Operation: usher.Update, User: usher.User{Name: w.user}, Trusted: true,
			Kind: next.GroupVersionKind(), Name: next.GetName(), Namespace: next.GetNamespace(),
			Object: usher.TreeObject(next.Object), OldObject: usher.TreeObject(old.Object),
		})
		if err != nil {
			w.t.Fatal(err)
		}
		if d.Verdict == usher.Deny {
			return nil, d.Message
		}
		tree, _, err := jsonpatch.Apply(next.Object, d.Patch)
		if err != nil {
			w.t.Fatal(err)
		}
		next = (&unstructured.Unstructured{Object: tree}).DeepCopy()
	}
	return next, ""
}

func (w *town) rotate(ctx context.Context) error {
	w.out.Reset()
	w.err.Reset()
	r := &authorize.Rotation{
		Client: w.policies, Kube: w.kube, Namespace: "usher-system", Secret: proof.DefaultSecret,
		Streams: cli.Streams{Out: &w.out, Err: &w.err}, Replicas: w.peers, Pause: func(context.Context) { w.step() },
	}
	return r.Run(ctx)
}

// TestRotationsInARow: a replica that uses the key before for longer than others must not bring
// its proofs back, which the next rotation would end.
func TestRotationsInARow(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 2, 3} {
		w := newTown(t, replicas)
		for i := range 5 {
			w.create(fmt.Sprint("p", i), nil, "True")
		}
		for round := range 3 {
			before := w.proofOf("p0")
			if err := w.rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(w.out.String(), "proofs renewed: 5\n") || w.proofOf("p0") == before {
				t.Errorf("%d replicas, rotation %d: %s", replicas, round, w.out.String())
			}
			for i := range 5 {
				if name := fmt.Sprint("p", i); !w.proven(name) {
					t.Errorf("%d replicas, rotation %d: %s is not proven", replicas, round, name)
				}
			}
		}
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason  string
		prepare func(w *town)
		err     string
		printed string
		// proven tells of the policies whether they are proven afterwards.
		proven map[string]bool
	}{
		{"what is not proven stays so, and stops nothing", func(w *town) {
			text := w.proofOf("p")
			w.create("forged", map[string]string{proof.Annotation: text}, "False")
			w.create("foreign", map[string]string{proof.Annotation: "v1.0123456789abcdef.AAAA"}, "False")
		}, "", "the proof of AuthorizationPolicy shop/forged is not renewed, because it is not valid: not in force: of forged", map[string]bool{"p": true, "forged": false, "foreign": false}},
		{"a policy that changes meanwhile is read again", func(w *town) {
			w.interrupt = func() {
				p := w.stored("p")
				p.SetResourceVersion("2")
				if err := w.policies.Tracker().Update(grants, p, "shop"); err != nil {
					w.t.Fatal(err)
				}
			}
		}, "", "", map[string]bool{"p": true}},
		{"without Usher, proofs stay as they are", func(w *town) { w.silent = true },
			"renew the proof of AuthorizationPolicy shop/p: the API server did not ask Usher", "", map[string]bool{"p": true}},
		{"no rights are asked for what does not change", func(w *town) { w.user = "robot" }, "", "", map[string]bool{"p": true}},
		{"another Secret", func(w *town) {
			if err := w.kube.Tracker().Delete(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "usher-system", proof.DefaultSecret); err != nil {
				w.t.Fatal(err)
			}
		}, "there is no Secret usher-system/usher-proofs: name that of the servers", "", map[string]bool{"p": true}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			w := newTown(t, 2)
			w.create("p", nil, "True")
			row.prepare(w)
			if err := w.rotate(t.Context()); row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
				t.Fatalf("error is %v, want %q", err, row.err)
			}
			if printed := w.err.String(); !strings.Contains(printed, row.printed) || row.printed == "" && printed != "" {
				t.Errorf("printed %q, want %q", printed, row.printed)
			}
			for name, want := range row.proven {
				if got := w.proven(name); got != want {
					t.Errorf("%s is proven: %v, want %v", name, got, want)
				}
			}
		})
	}
}

// TestRotationNamesReplicasThatLag: and leaves both keys valid.
func TestRotationNamesReplicasThatLag(t *testing.T) {
	t.Parallel()
	w := newTown(t, 2)
	w.create("p", nil, "True")
	ctx, cancel := context.WithCancel(t.Context())
	r := &authorize.Rotation{
		Client: w.policies, Kube: w.kube, Namespace: "usher-system", Secret: proof.DefaultSecret,
		Streams: cli.Streams{Out: &w.out, Err: &w.err}, Replicas: w.peers, Pause: func(context.Context) { cancel() },
	}
	if err := r.Run(ctx); err == nil || !strings.Contains(err.Error(), "(replica-0, replica-1)") || !strings.Contains(err.Error(), "both keys count: repeat the command") {
		t.Errorf("error is %v", err)
	}
	if !w.proven("p") {
		t.Error("the policy is not proven any more")
	}
	if err := w.rotate(t.Context()); err != nil || !w.proven("p") {
		t.Errorf("the command repeated: %v", err)
	}
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason   string
		user     string
		silent   bool
		dryRun   bool
		before   string
		negative bool
		out, err string
		proven   bool
	}{
		{"with the verb escalate", "admin", false, false, "v1.0123456789abcdef.AAAA", false, "adopted AuthorizationPolicy shop/p\n", "", true},
		{"as a dry run, nothing is stored", "admin", false, true, "v1.0123456789abcdef.AAAA", false, "would adopt AuthorizationPolicy shop/p\n", "", false},
		{"asked for before", "admin", false, false, "adopt", false, "adopted AuthorizationPolicy shop/p\n", "", true},
		{"without the verb escalate", "robot", false, false, "", true, "", "to adopt a policy needs permission to escalate", false},
		{"the API server does not ask Usher", "admin", true, false, "", true, "", "is not adopted: the API server did not ask Usher", false},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			w := newTown(t, 2)
			w.user, w.silent = row.user, row.silent
			w.create("p", map[string]string{proof.Annotation: row.before}, "False")
			w.create("proven", nil, "True")
			before := w.stored("p").GetAnnotations()
			policies, err := authorize.Policies(t.Context(), w.policies, "", stop)
			if err != nil {
				t.Fatal(err)
			}
			policies = slices.DeleteFunc(policies, func(p authorize.Stored) bool { return p.Unproven == "" })
			err = authorize.Adopt(t.Context(), w.policies, policies, row.dryRun, cli.Streams{Out: &w.out, Err: &w.err})
			if errors.Is(err, cli.ErrNegative) != row.negative || !row.negative && err != nil {
				t.Errorf("error is %v", err)
			}
			if diff := cmp.Diff(row.out, w.out.String()); diff != "" || !strings.Contains(w.err.String(), row.err) {
				t.Errorf("output (-want +got):\n%s\nerrors: %s", diff, w.err.String())
			}
			if got := w.proven("p"); got != row.proven {
				t.Errorf("it is proven: %v", got)
			}
			if after := w.stored("p").GetAnnotations(); row.dryRun && !maps.Equal(before, after) {
				t.Errorf("a dry run stored %v", after)
			}
		})
	}
}

// TestAdoptNeedsServer: if Usher does not answer, it is said how to go on.
func TestAdoptNeedsServer(t *testing.T) {
	t.Parallel()
	w := newTown(t, 1)
	w.create("p", map[string]string{}, "False")
	w.policies.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New(`failed calling webhook "mutate-rights.usher.dev": connection refused`))
	})
	policies, err := authorize.Policies(t.Context(), w.policies, "", stop)
	if err != nil {
		t.Fatal(err)
	}
	err = authorize.Adopt(t.Context(), w.policies, policies, false, cli.Streams{Out: &w.out, Err: &w.err})
	if text := w.err.String(); !errors.Is(err, cli.ErrNegative) || !strings.Contains(text, "no server of Usher answers") || !strings.Contains(text, "connection refused") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestClusterPoliciesThatAreNotProven: without the key, what their status says counts.
func TestClusterPoliciesThatAreNotProven(t *testing.T) {
	t.Parallel()
	w := newTown(t, 1)
	w.create("proven", nil, "True")
	w.create("planted", map[string]string{}, "False")
	w.create("untold", map[string]string{}, "Unknown")
	untold := w.stored("untold").DeepCopy()
	unstructured.RemoveNestedField(untold.Object, "status")
	w.create("recorded", map[string]string{}, "False")
	recorded := w.stored("recorded").DeepCopy()
	recorded.Object["status"].(map[string]any)["conditions"] = []any{
		map[string]any{"type": "Proven", "status": "False", "observedGeneration": int64(1), "message": "in force all the same: why"},
		map[string]any{"type": "Enforced", "status": "True", "observedGeneration": int64(1)},
	}
	for _, o := range []*unstructured.Unstructured{untold, recorded} {
		if err := w.policies.Tracker().Update(grants, o, "shop"); err != nil {
			t.Fatal(err)
		}
	}
	kind, _ := api.KindNamed(schema.GroupVersionKind{Group: "usher.dev", Version: "v1alpha1", Kind: "AuthorizationPolicy"})
	policies, err := authorize.ClusterPolicies(t.Context(), w.policies, kind, "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]api.Proof{}
	for _, p := range policies {
		got[p.Object.GetName()] = p.Proof
	}
	want := map[string]api.Proof{
		"proven": {State: api.Proven}, "planted": {State: api.Unproven, Why: "not in force: of planted"},
		"untold": {}, "recorded": {State: api.Recorded, Why: "in force all the same: why"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// stop is for kinds that must be listed.
func stop(err error) error { return err }

// TestAdoptWithRightsOnSomeKinds: the ClusterRole of an administrator may be older than a kind.
func TestAdoptWithRightsOnSomeKinds(t *testing.T) {
	t.Parallel()
	w := newTown(t, 1)
	w.create("p", map[string]string{proof.Annotation: ""}, "False")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "objectpolicies"}, "", errors.New("no rule"))
	w.policies.PrependReactor("list", "objectpolicies", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	w.policies.PrependReactor("list", "policyexemptions", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "policyexemptions"}, "")
	})
	var leftOut []error
	policies, err := authorize.Policies(t.Context(), w.policies, "", func(err error) error {
		leftOut = append(leftOut, err)
		return nil
	})
	if err != nil || len(policies) != 1 || policies[0].Name != "p" {
		t.Errorf("policies %v, %v", policies, err)
	}
	if len(leftOut) != 1 || !errors.Is(leftOut[0], forbidden) {
		t.Errorf("left out: %v, want the kind that may not be listed", leftOut)
	}
	if _, err := authorize.Policies(t.Context(), w.policies, "", stop); !errors.Is(err, forbidden) {
		t.Errorf("where all are needed: %v", err)
	}
}
