// Package proofs keeps the keys of policy proofs, which the replicas of a server share.
package proofs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/pager"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/changes"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/reload"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/serve/page"
)

const (
	// proofLease is a Lease without a holder: its existence means that there has been a key.
	// Uninstalling removes it with the other Leases.
	proofLease = "usher-proofs"

	// The words in the Lease of a replica: the keys by which it checks and makes proofs.
	servesProofKey  = "proof-key-"
	servesProofSign = "proof-sign-"

	// refreshEvery is how often the Secret and the Leases are read, and refreshGap the shortest time
	// between two refreshes, regardless of the number of policies that need one.
	refreshEvery   = 10 * time.Second
	refreshGap     = 250 * time.Millisecond
	refreshTimeout = 10 * time.Second
)

// Proofs manages the keys of policy proofs, together with other replicas.
//
// A new key makes proofs when every live replica says that it has read the key. Until then the
// previous key does, so that no replica gets proofs that it cannot check.
type Proofs struct {
	prover   proof.Prover
	keeper   *keyring.Keeper
	peers    Peers
	secret   string
	leases   coordinationclient.LeaseInterface
	policies dynamic.Interface
	// changed is called when policies must be checked again.
	changed func()
	log     *slog.Logger

	// wake has a message when a stored policy has a proof by an unknown key.
	wake chan struct{}
	// reading is held while the keys are read, and guards the fields below.
	reading chan struct{}
	read    time.Time
	words   []string
	marked  bool

	mu   sync.Mutex
	keys keyring.Keys
	err  error
}

// Peers lists the other replicas, and publishes to them what this one serves.
type Peers interface {
	Peers(ctx context.Context) ([]replicas.Peer, error)
	Serves(topic string, words ...string)
	Leads() bool
}

// Options configure [Proofs]. All are needed.
type Options struct {
	Kube     kubernetes.Interface
	Policies dynamic.Interface
	// Namespace has the Secret with the keys.
	Namespace, Secret string
	Peers             Peers
	// Changed is called when policies must be checked again.
	Changed func()
	Log     *slog.Logger
}

// New returns Proofs that have read nothing yet.
func New(o Options) *Proofs {
	p := &Proofs{
		peers: o.Peers, leases: o.Kube.CoordinationV1().Leases(o.Namespace), policies: o.Policies, changed: o.Changed, log: o.Log,
		wake: make(chan struct{}, 1), reading: make(chan struct{}, 1), secret: o.Secret,
	}
	p.keeper = keyring.NewKeeper(o.Kube.CoreV1().Secrets(o.Namespace), keyring.Options{
		Namespace: o.Namespace, Name: o.Secret, Purpose: "policy proofs", First: p.first, Log: o.Log,
	})
	p.prover.Refresh, p.prover.Unknown = p.fresh, func() { changes.Signal(p.wake) }
	return p
}

// Prover makes and checks proofs by the current keys.
func (p *Proofs) Prover() *proof.Prover { return &p.prover }

// Start reads the keys: without them no policy can be checked.
func (p *Proofs) Start(ctx context.Context) error {
	p.reading <- struct{}{}
	defer func() { <-p.reading }()
	keys, err := p.keeper.Load(ctx)
	if err != nil {
		return err
	}
	others, err := p.peers.Peers(ctx)
	if err != nil {
		p.log.Warn("whether other replicas run is not known", "error", err)
	}
	p.take(keys, others, err == nil)
	return nil
}

// Run keeps the keys current until ctx is done.
func (p *Proofs) Run(ctx context.Context) error {
	reload.Loop{
		Every: refreshEvery, Changes: p.wake,
		Load: func(ctx context.Context) error {
			err := p.refresh(ctx)
			deadline.Sleep(ctx, refreshGap)
			return err
		},
		Report: func(err error) {
			p.log.Warn("read the keys of policy proofs; those that are known go on", "error", err)
		},
	}.Run(ctx)
	return nil
}

// fresh reads the keys for a policy with a proof by an unknown key, at a limited rate.
func (p *Proofs) fresh(ctx context.Context) error {
	select {
	case p.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.reading }()
	if time.Since(p.read) < refreshGap {
		return nil
	}
	return p.readKeys(ctx)
}

func (p *Proofs) refresh(ctx context.Context) error {
	p.reading <- struct{}{}
	defer func() { <-p.reading }()
	return p.readKeys(ctx)
}

// readKeys reads everything once, and records the existing policies if that has not been done.
func (p *Proofs) readKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	p.read = time.Now()
	others, peersErr := p.peers.Peers(ctx)
	keys, err := p.keeper.Load(ctx)
	switch {
	case err != nil:
	case isRecord(p.keys.Note) && !isRecord(keys.Note):
		keys, err = p.restore(ctx)
	case peersErr == nil && p.peers.Leads() && keys.Note == "":
		keys, err = p.record(ctx)
	}
	if err != nil {
		keys = p.keys
	}
	if !keys.Current.IsZero() {
		p.take(keys, others, peersErr == nil)
	}
	err = errors.Join(err, peersErr, p.mark(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	return err
}

// ProvingWithout returns the live replicas that make proofs by another key than this one: until
// there are none, the key must not be replaced.
func ProvingWithout(key keyring.Key, peers []replicas.Peer) []string {
	var names []string
	for i := range peers {
		r := &peers[i]
		if r.Live && !slices.Contains(r.Serves, servesProofSign+key.Fingerprint()) {
			names = append(names, r.Identity)
		}
	}
	return names
}

// first returns the note of a key that is created because there is none. If there was one before,
// it is lost, and it is unknown which policies it proved.
func (p *Proofs) first(ctx context.Context) (string, error) {
	_, err := p.leases.Get(ctx, proofLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find out whether there was a key of policy proofs: %w", err)
	}
	p.log.Error("the key of policy proofs is lost, another one is made",
		"do", "restore the Secret from a backup, or have policies adopted with 'usher authz adopt'")
	return proof.RecordLost(time.Now()).Encode()
}

// mark creates the Lease that records that there is a key. The leader creates it again if it was
// deleted.
func (p *Proofs) mark(ctx context.Context) error {
	if p.marked {
		if !p.peers.Leads() {
			return nil
		}
		_, err := p.leases.Get(ctx, proofLease, metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("find out whether it is marked that there is a key of policy proofs: %w", err)
		}
		p.log.Warn("the Lease that marks that there is a key of policy proofs was deleted, another one is made", "lease", proofLease)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: proofLease, Labels: map[string]string{replicas.LeaseLabel: "proofs"}}}
	_, err := p.leases.Create(ctx, lease, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("mark that there is a key of policy proofs: %w", err)
	}
	p.marked = true
	return nil
}

// record stores with the first key which policies exist.
func (p *Proofs) record(ctx context.Context) (keyring.Keys, error) {
	var existing []api.Object
	for _, kind := range api.Kinds() {
		if !kind.PredatesProofs {
			continue
		}
		list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return p.policies.Resource(kind.GroupVersionResource()).List(ctx, o)
		}
		err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			policy := kind.New()
			if listed, ok := item.(metav1.Object); ok {
				policy.SetUID(listed.GetUID())
				policy.SetGeneration(listed.GetGeneration())
				policy.SetCreationTimestamp(listed.GetCreationTimestamp())
				policy.SetAnnotations(listed.GetAnnotations())
				existing = append(existing, policy)
			}
			return nil
		})
		// A kind whose definition is missing has no policies.
		if err != nil && !apierrors.IsNotFound(err) {
			return keyring.Keys{}, fmt.Errorf("record %s: %w", kind.Resource, err)
		}
	}
	record := proof.RecordOf(existing, time.Now())
	keys, err := p.keeper.SetNote(ctx, func(keys keyring.Keys) (string, error) {
		if keys.Note != "" {
			return keys.Note, nil
		}
		return record.Encode()
	})
	if err == nil {
		p.log.Info("policies from before policy proofs recorded", "policies", len(record.Policies), "leftOut", record.LeftOut)
	}
	return keys, err
}

// isRecord reports whether a note is a record that was made.
func isRecord(note string) bool {
	r, err := proof.DecodeRecord(note)
	return err == nil && r.Made != nil
}

// restore stores the record that is known, after the one in the Secret was removed or damaged. Another one must
// not be made: it would have policies that were written without Usher.
func (p *Proofs) restore(ctx context.Context) (keyring.Keys, error) {
	p.log.Error("the record of policies from before policy proofs was removed from the Secret or damaged, it is stored again",
		"do", "find out who changes the Secret; if that was to restore a backup, restore it again with no replica running")
	return p.keeper.SetNote(ctx, func(keys keyring.Keys) (string, error) {
		if isRecord(keys.Note) {
			return keys.Note, nil
		}
		return p.keys.Note, nil
	})
}

// take uses keys, and announces that. If the other replicas are unknown, the previous key makes
// proofs.
func (p *Proofs) take(keys keyring.Keys, others []replicas.Peer, known bool) {
	next := proof.State{Sign: keys.Current, Valid: []keyring.Key{keys.Current}}
	if !keys.Previous.IsZero() {
		next.Valid = append(next.Valid, keys.Previous)
		lags := slices.ContainsFunc(others, func(other replicas.Peer) bool {
			return other.Live && !slices.Contains(other.Serves, servesProofKey+keys.Current.Fingerprint())
		})
		if lags || !known {
			next.Sign = keys.Previous
		}
	}
	var err error
	if next.Record, err = proof.DecodeRecord(keys.Note); err != nil {
		// It is unknown which policies were recorded, so none counts as recorded.
		next.Record = proof.RecordLost(time.Now())
		p.log.Error("policies from before policy proofs are not known", "error", err,
			"do", "restore the Secret from a backup, or have policies adopted with 'usher authz adopt'")
	}
	last := p.prover.State()
	if last != nil && last.Sign == next.Sign && keys == p.keys {
		return
	}
	p.mu.Lock()
	p.keys = keys
	p.mu.Unlock()
	p.prover.Use(next)
	var words []string
	for _, key := range next.Valid {
		words = append(words, servesProofKey+key.Fingerprint())
	}
	words = append(words, servesProofSign+next.Sign.Fingerprint())
	if !slices.Equal(words, p.words) {
		p.words = words
		p.peers.Serves("proofs", words...)
	}
	p.changed()
}

// Describe writes the state of proofs as text.
func (p *Proofs) Describe(b *page.Page, counts map[api.ProofState]int) {
	p.mu.Lock()
	keys, state, err := p.keys, p.prover.State(), p.err
	p.mu.Unlock()
	if state == nil {
		return
	}
	b.Either("policy proofs: by %s, made %s, in Secret %s\n", "policy proofs\n", keys.Current, keys.Replaced.Format(time.RFC3339), p.secret)
	fmt.Fprintf(b, "  policies: %d proven, %d from before proofs, %d unproven\n", counts[api.Proven], counts[api.Recorded], counts[api.Unproven])
	if !keys.Previous.IsZero() {
		b.Namef("  proofs by %s, the one before, count until keys are rotated again\n", keys.Previous)
	}
	if state.Sign != keys.Current {
		b.Namef("  it is used when every live replica has read it; until then %s is\n", state.Sign)
	}
	switch r := state.Record; {
	case r.Made == nil:
		b.WriteString("  policies from before proofs are not recorded yet: the replica that leads does that\n")
	case r.Lost != nil && counts[api.Unproven] > 0:
		fmt.Fprintf(b, "  the key was found lost at %s: restore the Secret, or have policies adopted with 'usher authz adopt'\n", r.Lost.Format(time.RFC3339))
	case r.LeftOut > 0:
		fmt.Fprintf(b, "  there was no place to record %d policies: have them adopted with 'usher authz adopt'\n", r.LeftOut)
	}
	if err != nil {
		b.Reason(err)
		b.Fail("policy proofs")
	}
}
