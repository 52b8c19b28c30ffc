package simulate

import (
	"context"
	"maps"
	"sync"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/warning"

	usher "github.com/usher-dev/usher"
)

// A run is one request on its way through the chain.
type run struct {
	sim     *Simulator
	request *prepared
	trace   *Trace
	phase   usher.Phase

	// mu is for what validating webhooks do at the same time.
	mu       sync.Mutex
	warnings []string
	audit    map[string]string
	// calls are those of the plugin at work, in order, and rounds counts how often each
	// mutating plugin has begun.
	calls  []*call
	rounds map[string]int
	// policies are what policies said to the plugin at work.
	policies []*policyEvent
	// bound is the binding of the validating policy at work.
	bound string
	// invoked has the mutating webhooks that were called in the first round.
	invoked map[hookName]bool
}

type runKey struct{}

func newRun(s *Simulator, p *prepared) *run {
	return &run{
		sim: s, request: p, rounds: map[string]int{}, invoked: map[hookName]bool{},
		trace: &Trace{
			Operation: usher.Operation(p.operation), Resource: p.String(), Kind: kindText(p.kind),
			Namespace: p.namespace, Name: p.name, User: p.user.GetName(), DryRun: p.dryRun, Before: p.before, Steps: []Step{},
		},
	}
}

// context returns one in which the plugins tell r what they do.
func (r *run) context(ctx context.Context) context.Context {
	return warning.WithWarningRecorder(withTracer(context.WithValue(ctx, runKey{}, r)), r)
}

// runOf is the run that ctx belongs to.
func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// AddWarning implements [warning.Recorder].
func (r *run) AddWarning(_, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, text)
}

// Limits of an API server on the warnings of one response, in characters.
const (
	maxWarnings = 4096
	maxWarning  = 256
)

// shown are the warnings that reach the client: each once, without those that cannot stand
// in a header, and shortened when they are too many.
func (r *run) shown() []string {
	seen := map[string]bool{}
	var shown []string
	total := 0
	for _, text := range r.warnings {
		if _, err := utilnet.NewWarningHeader(299, "", text); text == "" || seen[text] || err != nil {
			continue
		}
		seen[text] = true
		shown = append(shown, text)
		total += utf8.RuneCountInString(text)
	}
	if total <= maxWarnings {
		return shown
	}
	total = 0
	for i, text := range shown {
		if total >= maxWarnings {
			return shown[:i]
		}
		if runes := []rune(text); len(runes) > maxWarning {
			shown[i] = string(runes[:maxWarning])
		}
		total += utf8.RuneCountInString(shown[i])
	}
	return shown
}

// attributes are the request as plugins see it.
func (r *run) attributes(object runtime.Object, name string) *attributes {
	p := r.request
	return &attributes{
		Attributes: admission.NewAttributesRecord(object, p.old, p.kind, p.namespace, name, p.resource, p.subresource, p.operation, p.options, p.dryRun, p.user),
		run:        r,
	}
}

// attributes let a run see the audit annotations.
type attributes struct {
	admission.Attributes

	run *run
}

// AddAnnotation implements [admission.Attributes].
func (a *attributes) AddAnnotation(key, value string) error {
	return a.AddAnnotationWithLevel(key, value, auditinternal.LevelMetadata)
}

// AddAnnotationWithLevel implements [admission.Attributes].
func (a *attributes) AddAnnotationWithLevel(key, value string, level auditinternal.Level) error {
	if err := a.Attributes.AddAnnotationWithLevel(key, value, level); err != nil {
		return err
	}
	a.run.mu.Lock()
	defer a.run.mu.Unlock()
	if a.run.audit == nil {
		a.run.audit = map[string]string{}
	}
	// What stands in the audit log stays: mutation and validation can say the same key.
	if _, taken := a.run.audit[key]; !taken {
		a.run.audit[key] = value
	}
	return nil
}

// A mark is where a plugin begins: what it adds to is told apart by it.
type mark struct {
	start    time.Time
	object   runtime.Object
	warnings int
	audit    map[string]string
}

func (r *run) begin(a admission.Attributes) mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.policies = nil, nil
	m := mark{start: time.Now(), warnings: len(r.warnings), audit: maps.Clone(r.audit)}
	if object := a.GetObject(); object != nil {
		m.object = object.DeepCopyObject()
	}
	return m
}

// add appends a step that has the phase and the round of now.
func (r *run) add(s Step, round int) {
	s.Phase, s.Round = r.phase, round
	r.trace.Steps = append(r.trace.Steps, s)
}
