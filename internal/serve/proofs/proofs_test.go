package proofs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/serve/page"
	"github.com/usher-dev/usher/internal/serve/proofs"
)

// A bench is a cluster in which replicas prove policies. Each hears of the others what they say.
type bench struct {
	t        *testing.T
	kube     *kubefake.Clientset
	policies *dynamicfake.FakeDynamicClient

	mu     sync.Mutex
	served map[string][]string
	// dead are replicas that have ended.
	dead  []replicas.Peer
	leads string
}

func newBench(t *testing.T) *bench {
	kinds := map[schema.GroupVersionResource]string{}
	for _, kind := range api.Kinds() {
		kinds[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	return &bench{
		t: t, kube: kubefake.NewClientset(), served: map[string][]string{}, leads: "one",
		policies: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds),
	}
}

// A neighbour is a replica as the others see it.
type neighbour struct {
	*bench
	name string
}

func (p neighbour) Peers(context.Context) ([]replicas.Peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := append([]replicas.Peer(nil), p.dead...)
	for name, words := range p.served {
		if name != p.name {
			others = append(others, replicas.Peer{Identity: name, Live: true, Serves: words})
		}
	}
	return others, nil
}

func (p neighbour) Serves(_ string, words ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served[p.name] = words
}

func (p neighbour) Leads() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leads == p.name
}

// A replica has proofs, and counts how often policies were to be checked again.
type replica struct {
	*proofs.Proofs

	changes atomic.Int64
}

// describe is what people are told.
func (r *replica) describe(counts map[api.ProofState]int) string {
	b := page.Page{Named: true}
	r.Describe(&b, counts)
	return b.String()
}

// join starts a replica; end stops it.
func (b *bench) join(name string) (u *replica, end context.CancelFunc) {
	b.t.Helper()
	u = &replica{}
	u.Proofs = proofs.New(proofs.Options{
		Kube: b.kube, Policies: b.policies, Namespace: "usher-system", Secret: proof.DefaultSecret, Peers: neighbour{b, name},
		Changed: func() { u.changes.Add(1) }, Log: slog.New(slog.DiscardHandler),
	})
	if err := u.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	go func() { _ = u.Run(ctx) }()
	synctest.Wait()
	return u, func() {
		cancel()
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.served, name)
	}
}

// exists has a policy in the cluster, from before proofs.
func (b *bench) exists(name string) api.Object {
	b.t.Helper()
	text := fmt.Sprintf(`{"apiVersion": "usher.dev/v1alpha1", "kind": "AuthorizationPolicy", "metadata": {"name": %q, "namespace": "shop", "uid": "u-%[1]s", "generation": 1}}`, name)
	policy, err := api.Decode([]byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy.Object)
	if err != nil {
		b.t.Fatal(err)
	}
	kind, _ := api.KindOf(policy.Object)
	if err := b.policies.Tracker().Create(kind.GroupVersionResource(), &unstructured.Unstructured{Object: tree}, "shop"); err != nil {
		b.t.Fatal(err)
	}
	return policy.Object
}

func grant(t *testing.T, name string) api.Object {
	t.Helper()
	policy, err := api.Decode(fmt.Appendf(nil, `{"apiVersion": "usher.dev/v1alpha1", "kind": "AuthorizationPolicy", "metadata": {"name": %q, "namespace": "shop", "uid": "new-%[1]s", "generation": 1}}`, name))
	if err != nil {
		t.Fatal(err)
	}
	return policy.Object
}

func proven(t *testing.T, u *replica, object api.Object) api.Object {
	t.Helper()
	text, err := u.Prover().Make(object)
	if err != nil {
		t.Fatal(err)
	}
	object.SetAnnotations(map[string]string{proof.Annotation: text})
	return object
}

func expectProof(t *testing.T, reason string, u *replica, object api.Object, want api.ProofState) {
	t.Helper()
	if got := u.Prover().Check(object); got.State != want {
		t.Errorf("%s: %+v, want %s", reason, got, want)
	}
}

// TestPoliciesThatExistAreRecorded: with the first key, once.
func TestPoliciesThatExistAreRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		early := b.exists("early")
		u, end := b.join("one")
		defer end()
		time.Sleep(time.Minute)
		later := b.exists("later")
		time.Sleep(time.Minute)
		expectProof(t, "before the first start", u, early, api.Recorded)
		expectProof(t, "after the first start", u, later, api.Unproven)
		edited := grant(t, "early")
		edited.SetUID(early.GetUID())
		edited.SetGeneration(2)
		expectProof(t, "edited since", u, edited, api.Unproven)

		// A replica that starts again reads the same.
		again, endAgain := b.join("two")
		defer endAgain()
		expectProof(t, "at another replica", again, early, api.Recorded)
		expectProof(t, "at another replica", again, later, api.Unproven)
	})
}

// TestReplicasAgreeOnProofsDuringRotation: at no time does a replica make a proof that another
// one cannot check.
func TestReplicasAgreeOnProofsDuringRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		one, endOne := b.join("one")
		defer endOne()
		two, endTwo := b.join("two")
		defer endTwo()
		time.Sleep(time.Minute)
		replicas := []*replica{one, two}
		before := proven(t, one, grant(t, "before"))
		keeper := keyring.NewKeeper(b.kube.CoreV1().Secrets("usher-system"), keyring.Options{Namespace: "usher-system", Name: proof.DefaultSecret, Purpose: "policy proofs"})
		keys, err := keeper.Rotate(t.Context(), func(keyring.Keys) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			for _, maker := range replicas {
				object := proven(t, maker, grant(t, "during"))
				for _, checker := range replicas {
					expectProof(t, "during rotation", checker, object, api.Proven)
					expectProof(t, "by the key before", checker, before, api.Proven)
				}
			}
			time.Sleep(time.Second)
		}
		if got := proof.KeyOf(proven(t, one, grant(t, "after")).GetAnnotations()[proof.Annotation]); got != keys.Current.Fingerprint() {
			t.Errorf("proofs are by key %s, want the new one", got)
		}
		// The second rotation ends what the key before proved.
		if _, err := keeper.Rotate(t.Context(), func(keyring.Keys) bool { return true }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expectProof(t, "after two rotations", two, before, api.Unproven)
		if two.changes.Load() < 3 {
			t.Errorf("policies were checked anew %d times", two.changes.Load())
		}
	})
}

// TestStoredProofsHaveKeysReadAnew: a replica that meets a proof by a new key in what is stored
// does not wait for its turn to read the keys, and asks no more often for it.
func TestStoredProofsHaveKeysReadAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		u, end := b.join("one")
		defer end()
		// Between two turns.
		time.Sleep(time.Minute + 4*time.Second)
		keeper := keyring.NewKeeper(b.kube.CoreV1().Secrets("usher-system"), keyring.Options{Namespace: "usher-system", Name: proof.DefaultSecret, Purpose: "policy proofs"})
		keys, err := keeper.Rotate(t.Context(), func(keyring.Keys) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		object := grant(t, "p")
		text, err := proof.Make(keys.Current, object)
		if err != nil {
			t.Fatal(err)
		}
		object.SetAnnotations(map[string]string{proof.Annotation: text})
		expectProof(t, "before the key is read", u, object, api.Unproven)
		time.Sleep(time.Second)
		expectProof(t, "a moment later", u, object, api.Proven)

		foreign := grant(t, "p")
		foreign.SetAnnotations(map[string]string{proof.Annotation: "v1.0123456789abcdef." + strings.Repeat("A", 43)})
		before := len(b.kube.Actions())
		for range 1000 {
			expectProof(t, "by the key of another cluster", u, foreign, api.Unproven)
			time.Sleep(time.Millisecond)
		}
		// Four times a second and once at the begin two objects are read, and once because it is time.
		if n := len(b.kube.Actions()) - before; n > 12 {
			t.Errorf("%d requests within a second", n)
		}
	})
}

// TestWhoProvesByAnOlderKeyIsKnown: a rotation waits for them.
func TestWhoProvesByAnOlderKeyIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.dead = []replicas.Peer{{Identity: "dead"}}
		_, endOne := b.join("one")
		defer endOne()
		_, endTwo := b.join("two")
		defer endTwo()
		time.Sleep(time.Minute)
		// Replicas that read the key at this moment do so before it is replaced.
		synctest.Wait()
		keeper := keyring.NewKeeper(b.kube.CoreV1().Secrets("usher-system"), keyring.Options{Namespace: "usher-system", Name: proof.DefaultSecret, Purpose: "policy proofs"})
		keys, err := keeper.Rotate(t.Context(), func(keyring.Keys) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		late := func() []string {
			replicas, err := neighbour{b, "nobody"}.Peers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return slices.Sorted(slices.Values(proofs.ProvingWithout(keys.Current, replicas)))
		}
		if diff := cmp.Diff([]string{"one", "two"}, late()); diff != "" {
			t.Errorf("after the rotation (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		if left := late(); len(left) > 0 {
			t.Errorf("a minute later: %v", left)
		}
	})
}

// TestLostKeysAreNotAFirstStart: who can have a key lost would otherwise have policies recorded
// that were stored past Usher.
func TestLostKeysAreNotAFirstStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		old := b.exists("old")
		u, end := b.join("one")
		time.Sleep(time.Minute)
		object := proven(t, u, grant(t, "p"))
		secrets := b.kube.CoreV1().Secrets("usher-system")
		saved, err := secrets.Get(t.Context(), proof.DefaultSecret, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lose := func() {
			// Replicas that read the key at this moment do so before.
			synctest.Wait()
			if err := secrets.Delete(t.Context(), proof.DefaultSecret, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		// While a replica runs, nothing is lost: it knows the key.
		lose()
		time.Sleep(time.Minute)
		expectProof(t, "the Secret was deleted under a replica", u, object, api.Proven)
		expectProof(t, "the Secret was deleted under a replica", u, old, api.Recorded)
		end()
		lose()
		planted := b.exists("planted")
		u, end = b.join("one")
		defer end()
		time.Sleep(time.Minute)
		expectProof(t, "the key is lost", u, object, api.Unproven)
		expectProof(t, "the record is lost", u, old, api.Unproven)
		expectProof(t, "stored past Usher", u, planted, api.Unproven)
		if text := u.describe(map[api.ProofState]int{api.Unproven: 3}); !strings.Contains(text, "the key was found lost at ") || !strings.Contains(text, "usher authz adopt") {
			t.Errorf("people are told:\n%s", text)
		}
		// The Secret comes back from a backup.
		lose()
		saved.ResourceVersion = ""
		if _, err := secrets.Create(t.Context(), saved, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expectProof(t, "the Secret is restored", u, object, api.Proven)
		expectProof(t, "the Secret is restored", u, old, api.Recorded)
		expectProof(t, "the Secret is restored", u, planted, api.Unproven)
	})
}

// TestADamagedRecordIsStoredAgain: a record that is removed, or cannot be read, does not have what was stored past
// Usher recorded.
func TestADamagedRecordIsStoredAgain(t *testing.T) {
	t.Parallel()
	for _, note := range []string{"", "garbage", "\x1f\x8b"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			old := b.exists("old")
			u, end := b.join("one")
			defer end()
			other, endOther := b.join("two")
			defer endOther()
			time.Sleep(time.Minute)
			planted := b.exists("planted")
			secrets := b.kube.CoreV1().Secrets("usher-system")
			secret, err := secrets.Get(t.Context(), proof.DefaultSecret, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			record := secret.Data["note"]
			secret.Data["note"] = []byte(note)
			if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			for _, u := range []*replica{u, other} {
				expectProof(t, fmt.Sprintf("the note is %q", note), u, old, api.Recorded)
				expectProof(t, fmt.Sprintf("the note is %q", note), u, planted, api.Unproven)
			}
			if secret, err = secrets.Get(t.Context(), proof.DefaultSecret, metav1.GetOptions{}); err != nil || !slices.Equal(secret.Data["note"], record) {
				t.Errorf("the note %q stays %q: %v", note, secret.Data["note"], err)
			}
		})
	}
}

// TestTheMarkOfAKeyComesBack: who may delete Leases would otherwise have the next loss of the key
// taken for a first start.
func TestTheMarkOfAKeyComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_, end := b.join("one")
		time.Sleep(time.Minute)
		if err := b.kube.CoordinationV1().Leases("usher-system").Delete(t.Context(), "usher-proofs", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		end()
		if err := b.kube.CoreV1().Secrets("usher-system").Delete(t.Context(), proof.DefaultSecret, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		planted := b.exists("planted")
		u, end := b.join("one")
		defer end()
		time.Sleep(time.Minute)
		expectProof(t, "stored past Usher", u, planted, api.Unproven)
	})
}

// TestUnknownKeysDoNotFloodTheAPIServer: anybody who may annotate a policy can name a key.
func TestUnknownKeysDoNotFloodTheAPIServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		u, end := b.join("one")
		defer end()
		time.Sleep(time.Minute)
		object := grant(t, "p")
		object.SetAnnotations(map[string]string{proof.Annotation: "v1.0123456789abcdef." + strings.Repeat("A", 43)})
		before := len(b.kube.Actions())
		for range 1000 {
			if why := u.Prover().Prove(t.Context(), object); why == "" {
				t.Fatal("it is proven")
			}
			time.Sleep(time.Millisecond)
		}
		// Four times a second and once at the begin two objects are read, and once because it is time.
		if n := len(b.kube.Actions()) - before; n > 12 {
			for _, a := range b.kube.Actions()[before:] {
				t.Log(a.GetVerb(), a.GetResource().Resource)
			}
			t.Errorf("%d requests within a second", n)
		}
	})
}

// TestKeysThatCannotBeReadGoOn: neither an API server that does not answer nor a Secret that
// somebody has broken takes away what is known.
func TestKeysThatCannotBeReadGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		old := b.exists("old")
		var broken atomic.Pointer[clienttesting.ReactionFunc]
		b.kube.PrependReactor("get", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if react := broken.Load(); react != nil {
				return (*react)(action)
			}
			return false, nil, nil
		})
		u, end := b.join("one")
		defer end()
		time.Sleep(time.Minute)
		object := proven(t, u, grant(t, "p"))
		away := clienttesting.ReactionFunc(func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInternalError(errors.New("etcd is away"))
		})
		broken.Store(&away)
		time.Sleep(time.Minute)
		expectProof(t, "the API server does not answer", u, object, api.Proven)
		expectProof(t, "the API server does not answer", u, old, api.Recorded)
		if text := u.describe(nil); !strings.Contains(text, "etcd is away") {
			t.Errorf("people are told:\n%s", text)
		}
		other := clienttesting.ReactionFunc(func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "usher-proofs"}, Data: map[string][]byte{"password": []byte("x")}}, nil
		})
		broken.Store(&other)
		time.Sleep(time.Minute)
		expectProof(t, "the Secret holds something else", u, object, api.Proven)
	})
}
