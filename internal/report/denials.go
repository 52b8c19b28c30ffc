package report

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	usher "github.com/usher-dev/usher"
)

const (
	// ReasonDenied is the reason of Events about denied requests.
	ReasonDenied = "PolicyDenied"

	// denialsEvery is how often Events about denials are written.
	denialsEvery = time.Minute
	// denialEvents limits the Events that a replica writes each time, and namespaceDenialEvents those
	// in one namespace.
	denialEvents          = 60
	namespaceDenialEvents = 5
	// denialsFirst is how long the first denial of a policy in a namespace waits for others before its
	// Event is written. Of those earlyEvents a minute are written so early.
	denialsFirst = 500 * time.Millisecond
	earlyEvents  = 10
	// denialsLast is how long a replica that ends has to write the last Events.
	denialsLast = 3 * time.Second
	// mostTallies limits what is counted at the same time, and namespaceTallies what of that in one namespace: who writes
	// its policies chooses how many there have been.
	mostTallies      = 1000
	namespaceTallies = mostTallies / 10
	// tallyLife is for how long an Event goes on, as long as API servers keep them.
	tallyLife = time.Hour
)

// Denials writes Events about the requests that policies deny: for each policy and namespace one,
// with a count: the first at once, then at most one a minute. They have names and never values. Events of namespaced objects
// are about the object that was denied last, in its namespace; those of others about the policy, in
// the namespace default.
type Denials struct {
	kube     kubernetes.Interface
	identity string
	log      *slog.Logger

	// begun has a value after the first denial of a tally.
	begun chan struct{}

	mu      sync.Mutex
	tallies map[tallyKey]*tally
	// own counts the tallies of each namespace.
	own map[string]int
	// early counts the Events of each namespace that have been written since the last round.
	early   map[string]int
	dropped atomic.Int64
}

type tallyKey struct {
	policy    usher.PolicyRef
	namespace string
}

// A tally counts the denials of a policy in a namespace.
type tally struct {
	first, last time.Time
	count       int64
	// fresh says that there were some since the last Event.
	fresh bool
	// told says that there has been an Event.
	told bool
	// of is the last one.
	of about
}

// An about is what a denial was about.
type about struct{ operation, apiVersion, kind, name string }

// NewDenials returns a Denials that has seen none. The identity is the name of this replica.
func NewDenials(kube kubernetes.Interface, identity string, log *slog.Logger) *Denials {
	return &Denials{kube: kube, identity: identity, log: log, begun: make(chan struct{}, 1), tallies: map[tallyKey]*tally{}, own: map[string]int{}, early: map[string]int{}}
}

// Wrap returns a decider that decides as d does and counts what policies deny. It returns d if v is
// nil.
func (v *Denials) Wrap(d usher.Decider) usher.Decider {
	if v == nil {
		return d
	}
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		decision, err := d.Decide(ctx, r)
		if err == nil && decision.Verdict == usher.Deny && !r.DryRun {
			v.add(r, decision.Findings, time.Now())
		}
		return decision, err
	})
}

// Dropped returns how many Events were not written, because there were too many or the API server
// refused them.
func (v *Denials) Dropped() int64 {
	if v == nil {
		return 0
	}
	return v.dropped.Load()
}

// denies reports whether a request is denied because of a rule.
func denies(f *usher.Finding) bool {
	return f.Denies() && !f.Written && f.Policy != (usher.PolicyRef{})
}

func (v *Denials) add(r *usher.Request, findings []usher.Finding, now time.Time) {
	namespace := r.Namespace
	if r.Kind.Kind == "Namespace" && r.Kind.Group == "" || len(apivalidation.IsDNS1123Label(namespace)) > 0 {
		namespace = ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range findings {
		if !denies(&findings[i]) {
			continue
		}
		key := tallyKey{findings[i].Policy, namespace}
		t := v.tallies[key]
		if t == nil {
			if len(v.tallies) >= mostTallies || v.own[namespace] >= namespaceTallies {
				v.dropped.Add(1)
				continue
			}
			// The strings are parts of the body of the request.
			key.namespace = strings.Clone(namespace)
			t = &tally{first: now}
			v.tallies[key] = t
			v.own[key.namespace]++
			select {
			case v.begun <- struct{}{}:
			default:
			}
		}
		t.count++
		t.last, t.fresh, t.of = now, true, aboutOf(r)
	}
}

// aboutOf names what a request is about. Names that are not valid are left out: they are not
// validated yet.
func aboutOf(r *usher.Request) about {
	a := about{operation: strings.Clone(string(r.Operation)), apiVersion: strings.Clone(r.Kind.GroupVersion().String()), kind: strings.Clone(r.Kind.Kind)}
	if name := r.ObjectName(); len(validation.NameIsDNSSubdomain(name, false)) == 0 {
		a.name = strings.Clone(name)
	}
	return a
}

// Run writes Events until ctx is done, and then the last ones.
func (v *Denials) Run(ctx context.Context) error {
	ticker := time.NewTicker(denialsEvery)
	defer ticker.Stop()
	var first <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), denialsLast)
			defer cancel()
			all, left := v.due(time.Now())
			v.write(ctx, all, left)
			return nil
		case now := <-ticker.C:
			all, left := v.due(now)
			v.write(ctx, all, left)
		case <-v.begun:
			if first == nil {
				first = time.After(denialsFirst)
			}
		case <-first:
			first = nil
			v.write(ctx, v.new(), earlyEvents)
		}
	}
}

// A denialEvent is an Event to write.
type denialEvent struct {
	tallyKey
	tally

	// rank counts the Events of the namespace before it.
	rank int
}

// due returns the Events to write each minute, and how many of them.
func (v *Denials) due(now time.Time) (all []denialEvent, left int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, t := range v.tallies {
		switch {
		case t.fresh:
			all = append(all, denialEvent{tallyKey: key, tally: *t})
			t.fresh, t.told = false, true
		case now.Sub(t.last) >= tallyLife:
			delete(v.tallies, key)
			if v.own[key.namespace]--; v.own[key.namespace] == 0 {
				delete(v.own, key.namespace)
			}
		}
	}
	v.rank(all)
	left = denialEvents - v.earlier()
	v.early = map[string]int{}
	return all, left
}

// earlier returns how many Events have been written since the last round.
func (v *Denials) earlier() (n int) {
	for _, some := range v.early {
		n += some
	}
	return n
}

// new returns the Events to write for tallies that have had none.
func (v *Denials) new() []denialEvent {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []denialEvent
	for key, t := range v.tallies {
		if t.fresh && !t.told {
			all = append(all, denialEvent{tallyKey: key, tally: *t})
		}
	}
	v.rank(all)
	all = slices.DeleteFunc(all, func(e denialEvent) bool { return e.rank >= namespaceDenialEvents })
	all = all[:min(earlyEvents-v.earlier(), len(all))]
	for i := range all {
		t := v.tallies[all[i].tallyKey]
		t.fresh, t.told = false, true
		v.early[all[i].namespace]++
	}
	return all
}

// rank sorts Events: the first ones of each namespace come first.
func (v *Denials) rank(all []denialEvent) {
	slices.SortFunc(all, func(a, b denialEvent) int {
		return cmp.Or(-cmp.Compare(a.count, b.count), strings.Compare(a.policy.String(), b.policy.String()))
	})
	seen := maps.Clone(v.early)
	for i := range all {
		all[i].rank = seen[all[i].namespace]
		seen[all[i].namespace]++
	}
	slices.SortStableFunc(all, func(a, b denialEvent) int { return cmp.Compare(a.rank, b.rank) })
}

// write writes the first Events that are left of those of a minute.
func (v *Denials) write(ctx context.Context, all []denialEvent, left int) {
	written := 0
	for i := range all {
		if written == left || all[i].rank >= namespaceDenialEvents {
			v.dropped.Add(1)
			continue
		}
		written++
		if err := v.apply(ctx, &all[i]); err != nil && ctx.Err() == nil {
			v.dropped.Add(1)
			v.log.DebugContext(ctx, "event not written", "policy", all[i].policy.String(), "namespace", all[i].namespace, "error", err)
		}
	}
	if dropped := len(all) - written; dropped > 0 {
		v.log.InfoContext(ctx, "too many events about denials", "written", written, "dropped", dropped)
	}
}

// apply writes an Event. A replica has one for each policy and namespace, which it replaces.
func (v *Denials) apply(ctx context.Context, e *denialEvent) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	involved, namespace := involvedIn(e)
	hash := sha256.Sum256([]byte(v.identity + "\x00" + e.policy.String() + "\x00" + e.namespace))
	about := strings.TrimSpace(e.of.operation + " " + e.of.kind + " " + e.of.name)
	times := "a request"
	if e.count > 1 {
		times = fmt.Sprintf("%d requests", e.count)
	}
	event := coreapply.Event("usher-denied-"+hex.EncodeToString(hash[:8]), namespace).
		WithInvolvedObject(involved).
		WithType(corev1.EventTypeWarning).WithReason(ReasonDenied).
		WithMessage(short(fmt.Sprintf("%s denied %s; the last one: %s", e.policy, times, about))).
		WithSource(coreapply.EventSource().WithComponent(fieldManager).WithHost(v.identity)).
		WithFirstTimestamp(metav1.NewTime(e.first)).WithLastTimestamp(metav1.NewTime(e.last)).WithCount(int32(min(e.count, math.MaxInt32)))
	_, err := v.kube.CoreV1().Events(namespace).Apply(ctx, event, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// involvedIn returns what an Event is about, and its namespace, which has to be that of the object:
// the denied object, or the namespace itself if the object has no name yet.
func involvedIn(e *denialEvent) (*coreapply.ObjectReferenceApplyConfiguration, string) {
	switch {
	case e.namespace == "":
		involved := coreapply.ObjectReference().WithKind(e.policy.Kind).WithName(e.policy.Name)
		if e.policy.Namespace != "" {
			return involved.WithNamespace(e.policy.Namespace), e.policy.Namespace
		}
		return involved, metav1.NamespaceDefault
	case e.of.name == "":
		return coreapply.ObjectReference().WithAPIVersion("v1").WithKind("Namespace").WithName(e.namespace).WithNamespace(e.namespace), e.namespace
	}
	return coreapply.ObjectReference().WithAPIVersion(e.of.apiVersion).WithKind(e.of.kind).WithName(e.of.name).WithNamespace(e.namespace), e.namespace
}
