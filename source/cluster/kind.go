package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/changes"
	"github.com/usher-dev/usher/internal/reflector"
	"github.com/usher-dev/usher/source"
)

// A kind holds the policies of one kind, decoded. It is the store of its reflector.
type kind struct {
	// versions are those in which an API server may serve the kind, the newest first.
	versions []api.Kind
	client   dynamic.Interface
	options  Options
	log      *slog.Logger
	signal   func()
	// proofs is nil if policies of the kind need none.
	proofs Proofs
	// failed and moved receive at most one message when the state of the reflector changes: failed
	// when it begins to fail.
	failed, moved chan struct{}

	mu       sync.Mutex
	policies map[types.NamespacedName]held
	reading  reading
}

// A held is one policy of the cluster.
type held struct {
	uid types.UID
	sum [sha256.Size]byte
	// policy is the newest version that could be decoded; its object is nil if there is none.
	policy api.Policy
	// unreadable is why the newest version could not be decoded.
	unreadable error
	// checked is the version of the proofs by which the policy was checked; 0 before.
	checked uint64
}

func newKind(client dynamic.Interface, versions []api.Kind, signal func(), o Options) *kind {
	k := &kind{
		versions: versions, client: client, options: o, log: slog.New(slog.DiscardHandler), signal: signal,
		failed: make(chan struct{}, 1), moved: make(chan struct{}, 1), policies: map[types.NamespacedName]held{},
	}
	if versions[0].NeedsProof {
		k.proofs = o.Proofs
	}
	if o.Log != nil {
		k.log = o.Log.With(slog.String("kind", versions[0].Kind))
	}
	k.use(0)
	return k
}

// changed is called when the state of the reflector changes.
func (k *kind) changed() {
	if k.state().Err != nil {
		changes.Signal(k.failed)
	}
	changes.Signal(k.moved)
	k.signal()
}

// Replace implements [reflector.Store].
func (k *kind) Replace(objects []*unstructured.Unstructured) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.policies
	k.policies = make(map[types.NamespacedName]held, len(objects))
	for _, o := range objects {
		name := nameOf(o)
		k.policies[name] = before[name].next(o)
	}
	k.signal()
}

// Set implements [reflector.Store].
func (k *kind) Set(o *unstructured.Unstructured) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := nameOf(o)
	k.policies[name] = k.policies[name].next(o)
	k.signal()
}

// Delete implements [reflector.Store].
func (k *kind) Delete(o *unstructured.Unstructured) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.policies, nameOf(o))
	k.signal()
}

func nameOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// next is what the policy is now. It keeps its object if nothing that matters has changed,
// and its last readable version if the new one cannot be decoded.
func (h held) next(o *unstructured.Unstructured) held {
	text, err := text(o.Object)
	sum := sha256.Sum256(text)
	if err == nil && h.sum == sum {
		return h
	}
	next := held{uid: o.GetUID(), sum: sum}
	if err == nil {
		next.policy, err = api.Decode(text)
	}
	if err != nil {
		next.unreadable = fmt.Errorf("%s %s: %w", o.GetKind(), fullName(o.GetNamespace(), o.GetName()), err)
		if h.uid == next.uid {
			next.policy = h.policy
		}
	}
	return next
}

// proven is the policy with what its proof is worth now.
func (h held) proven(proofs Proofs) held {
	// Should the answer change meanwhile, the policy is checked again.
	if version := proofs.Version(); h.checked != version {
		h.policy.Proof, h.checked = proofs.Check(h.policy.Object), version
	}
	return h
}

// text is the object as JSON, without what changes when the policy does not.
func text(object map[string]any) ([]byte, error) {
	object = maps.Clone(object)
	delete(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "resourceVersion")
		object["metadata"] = metadata
	}
	return json.Marshal(object)
}

func fullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// addTo adds the policies to set, by namespace and name, and the errors of those that cannot be
// decoded. It is false if nothing is known yet.
func (k *kind) addTo(set *source.Set) bool {
	if known, readable := k.check(set); !readable {
		return known
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(k.policies), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range names {
		h := k.policies[name]
		if k.proofs != nil && h.policy.Object != nil {
			h = h.proven(k.proofs)
			k.policies[name] = h
		}
		if h.policy.Object != nil {
			set.Policies = append(set.Policies, h.policy)
		}
		if h.unreadable != nil {
			set.Unreadable = append(set.Unreadable, source.Unreadable{Err: h.unreadable})
		}
	}
	return true
}

// check reports whether there are policies to add. If there are none, known says whether that will stay so
// for a while. It adds to the set why the kind cannot be read.
func (k *kind) check(set *source.Set) (known, readable bool) {
	state := k.state()
	lasting := state.Err != nil && time.Since(state.Since) >= k.options.Wait
	switch {
	case lasting && apierrors.IsNotFound(state.Err) && k.versions[0].Foreign:
		return true, false
	case lasting && apierrors.IsNotFound(state.Err):
		set.Unreadable = append(set.Unreadable, k.absent())
		return true, false
	case !state.Synced && lasting && k.options.Lenient:
		return true, false
	case !state.Synced && lasting && k.versions[0].Recent && isForbidden(state):
		set.Unreadable = append(set.Unreadable, k.forbidden("until then they are not enforced"))
		return true, false
	case !state.Synced || k.proofs != nil && k.proofs.Version() == 0:
		return false, false
	case lasting && isForbidden(state):
		set.Unreadable = append(set.Unreadable, k.forbidden("until then policies stay as they were last seen"))
	}
	return true, true
}

// absent is the error for a kind that the cluster does not have. Its text, like that of forbidden,
// is the same at every attempt, unlike the API server's.
func (k *kind) absent() source.Unreadable {
	gvk := k.versions[0].GroupVersionKind
	return source.Unreadable{
		Err: fmt.Errorf("read policies of kind %s: the cluster has no such kind in %s", gvk.Kind, gvk.GroupVersion()),
		Do:  "install the CRDs of Usher; policies of this kind are enforced as soon as they are there",
	}
}

// forbidden is the error for a kind that may not be read; meanwhile says what applies until it may.
func (k *kind) forbidden(meanwhile string) source.Unreadable {
	gvk := k.versions[0].GroupVersionKind
	return source.Unreadable{
		Err: fmt.Errorf("read policies of kind %s: Usher may not get, list or watch them", gvk.Kind),
		Do:  "apply the ClusterRole of this version of Usher, which grants it for the API group " + gvk.Group + "; " + meanwhile,
	}
}

func isForbidden(s reflector.State) bool {
	return apierrors.IsForbidden(s.Err) || apierrors.IsUnauthorized(s.Err)
}

// heard is when the policies were last known to be those of the cluster. A kind that does
// not exist is known to have none.
func (k *kind) heard() time.Time {
	state := k.state()
	if apierrors.IsNotFound(state.Err) && state.Until.After(state.Heard) {
		return state.Until
	}
	return state.Heard
}
