package report

import (
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/usher-dev/usher/rule"
)

const (
	// Events are written at most eventsPerSecond, after a burst of eventBurst.
	eventsPerSecond = 1
	eventBurst      = 10
)

// announce writes an Event about a policy. It replaces the last one: a policy has one Event, which
// is written together with its condition Working. If the Event cannot be written, it is dropped.
func (l *leader) announce(ctx context.Context, p *rule.State, c *metav1.Condition, f *rule.Failure) {
	if !l.events.TryAccept() {
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
	if f != nil {
		first, times, kind = metav1.NewTime(f.Since), int32(min(f.Count, math.MaxInt32)), corev1.EventTypeWarning
	}
	about := coreapply.ObjectReference().
		WithAPIVersion(l.resources[p.Policy.Kind].GroupVersion().String()).WithKind(p.Policy.Kind).
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
