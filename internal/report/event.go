package report

import (
	"context"
	"math"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// Events are written at most eventsPerSecond, after a burst of eventBurst.
	eventsPerSecond = 1
	eventBurst      = 10
	// About the policies of one namespace they are written at most namespaceEventsPerSecond, after a burst of
	// namespaceEventBurst: those who write these policies choose how many there are.
	namespaceEventsPerSecond = 0.1
	namespaceEventBurst      = 5
)

// tell writes Events about policies that fail, or no longer do, and whose status others write: the
// admission policies of API servers.
func (l *leader) tell(ctx context.Context, v *view, now time.Time) {
	failing := l.failing()
	for i := range v.Policies {
		p := &v.Policies[i]
		if _, own := l.kinds[p.Policy.Kind]; own || p.UID == "" {
			continue
		}
		f := failing[p.UID]
		if f != nil && (f.Generation != p.InForce() || f.Count == 0) {
			f = nil
		}
		told, seen := l.working[p.UID]
		since := now.Sub(told.at)
		switch {
		case f == nil && !seen:
		case f == nil:
			delete(l.working, p.UID)
			l.announce(ctx, p, &metav1.Condition{Reason: v1alpha1.ReasonRecovered, Message: "the rules that failed have worked since"}, nil)
		case seen && (since < workingGap || told.covers(f, since)):
		default:
			l.working[p.UID] = working{at: now, count: f.Count, ignored: f.Ignored}
			l.announce(ctx, p, &metav1.Condition{Reason: v1alpha1.ReasonRuleFails, Message: short(failureText(f))}, f)
		}
	}
}

// apiVersionOf returns the API version of policies of a kind.
func (l *leader) apiVersionOf(kind string) string {
	if of, own := l.kinds[kind]; own {
		return of.GroupVersion().String()
	}
	return admissionv1.SchemeGroupVersion.String()
}

// mayTell reports whether there may be another Event about a policy of a namespace; an empty one is the cluster.
func (l *leader) mayTell(namespace string) bool {
	if namespace != "" {
		own := l.ownEvents[namespace]
		if own == nil {
			own = flowcontrol.NewTokenBucketRateLimiter(namespaceEventsPerSecond, namespaceEventBurst)
			l.ownEvents[namespace] = own
		}
		if !own.TryAccept() {
			return false
		}
	}
	return l.events.TryAccept()
}

// announce writes an Event about a policy. It replaces the last one: a policy has one Event, which
// is written together with its condition Working. If the Event cannot be written, it is dropped.
func (l *leader) announce(ctx context.Context, p *rule.State, c *metav1.Condition, f *rule.Failure) {
	if !l.mayTell(p.Policy.Namespace) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	namespace := p.Policy.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := metav1.NewTime(time.Now())
	first, times, kind := now, int32(1), corev1.EventTypeNormal
	if c.Reason == usherv1alpha1.ReasonExpired || c.Reason == v1alpha1.ReasonSuspended || c.Type == usherv1alpha1.ConditionExpiresSoon {
		kind = corev1.EventTypeWarning
	}
	if f != nil {
		first, times, kind = metav1.NewTime(f.Since), int32(min(f.Count, math.MaxInt32)), corev1.EventTypeWarning
	}
	about := coreapply.ObjectReference().
		WithAPIVersion(l.apiVersionOf(p.Policy.Kind)).WithKind(p.Policy.Kind).
		WithName(p.Policy.Name).WithUID(p.UID)
	if p.Policy.Namespace != "" {
		about = about.WithNamespace(p.Policy.Namespace)
	}
	event := coreapply.Event("usher-"+string(p.UID), namespace).
		WithInvolvedObject(about).
		WithType(kind).WithReason(c.Reason).WithMessage(c.Message).
		WithSource(coreapply.EventSource().WithComponent(fieldManager)).
		WithFirstTimestamp(first).WithLastTimestamp(now).WithCount(times)
	_, err := l.kube.CoreV1().Events(namespace).Apply(ctx, event, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil && ctx.Err() == nil {
		l.options.Log.Debug("event not written", "policy", p.Policy.String(), "error", err)
	}
}
