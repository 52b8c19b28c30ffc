// Package apiserver is the door for servers that are built on k8s.io/apiserver: an admission
// plugin, and an authorizer, that ask a [usher.Decider] in the server's own process.
//
// Package plugin has the plugin with Usher's policies. This package is for other deciders:
//
//	apiserver.Register(o.Admission.Plugins, func(io.Reader) (admission.Interface, error) {
//		return apiserver.New(decider, apiserver.Options{}), nil
//	})
//
// The plugin is idempotent if its decider is: a server runs it again when a webhook has
// changed the object, and after conflicts.
package apiserver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
)

// PluginName is what the plugin is called on the command line and in the configuration of
// a server.
const PluginName = "Usher"

const (
	deniedBy       = `admission plugin "` + PluginName + `"`
	defaultTimeout = 10 * time.Second
	// domain ends the names of audit annotations, which are those of the webhooks.
	domain = ".usher.dev/"
)

// Register adds the plugin to those of a server. Its place in the order is in front of
// MutatingAdmissionPolicy: see [Order].
func Register(plugins *admission.Plugins, factory admission.Factory) {
	plugins.Register(PluginName, factory)
}

// Order returns an order of plugins that includes this one: in front of the policies and webhooks
// of the API, so that they see its changes, and behind all others.
func Order(plugins []string) []string {
	for i, name := range plugins {
		switch name {
		case "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook":
			return append(append(append([]string{}, plugins[:i]...), PluginName), plugins[i:]...)
		}
	}
	return append(append([]string{}, plugins...), PluginName)
}

// Options are the limits of a [Plugin]. The zero value is ready to use.
type Options struct {
	// Covers reports whether the decider decides a request; nil means all. An object that is only
	// covered in another version of its kind is converted to that version. Covers is called without
	// objects first, and then with them.
	Covers func(*usher.Request) bool
	// Timeout is how long a decision may take; 0 means 10 seconds. A negative Timeout leaves
	// the deadline to the server.
	Timeout time.Duration
	// Log receives errors; nil means slog.Default.
	Log *slog.Logger
}

// A Plugin is the admission plugin. It mutates and validates. Use [New].
type Plugin struct {
	*admission.Handler

	decider usher.Decider
	covers  func(*usher.Request) bool
	timeout time.Duration
	log     *slog.Logger
}

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

// New returns a plugin that sends requests to d.
func New(d usher.Decider, o Options) *Plugin {
	p := &Plugin{
		Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete, admission.Connect),
		decider: d, covers: o.Covers, timeout: cmp.Or(o.Timeout, defaultTimeout), log: o.Log,
	}
	if p.covers == nil {
		p.covers = func(*usher.Request) bool { return true }
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	return p
}

// ValidateInitialization implements [admission.InitializationValidator].
func (p *Plugin) ValidateInitialization() error {
	if p.decider == nil {
		return errors.New("initialize admission plugin " + PluginName + ": there is no decider")
	}
	return nil
}

// Admit changes the object of a request, or denies the request.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	question, err := p.ask(ctx, usher.Mutate, a, o)
	if err != nil || question == nil {
		return err
	}
	if err := question.apply(answer.Patch(question.request, question.decision), o); err != nil {
		return p.undecided(ctx, question.request, err)
	}
	return nil
}

// Validate denies or allows a request.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	_, err := p.ask(ctx, usher.Validate, a, o)
	return err
}

// ask sends a request to the decider. The error is the denial; the question is nil if the request
// is not covered.
func (p *Plugin) ask(ctx context.Context, phase usher.Phase, a admission.Attributes, o admission.ObjectInterfaces) (*question, error) {
	q, err := p.question(phase, a, o)
	if err != nil {
		return nil, p.undecided(ctx, headers(phase, a), err)
	}
	if q == nil {
		return nil, nil
	}
	if !p.WaitForReady() {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	if p.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	q.decision, err = answer.Decide(ctx, p.decider, q.request, p.log)
	if err != nil {
		return nil, p.undecided(ctx, q.request, err)
	}
	for _, text := range answer.Warnings(q.decision.Warnings) {
		warning.AddWarning(ctx, "", text)
	}
	p.annotate(ctx, phase, a, q.decision)
	denial, err := answer.Denial(q.request, q.decision)
	if err != nil {
		return nil, p.undecided(ctx, q.request, err)
	}
	if denial != nil && answer.Native(&q.decision) {
		return nil, forbidden(phase, a, denial)
	}
	if denial != nil {
		return nil, refusal(denial)
	}
	return q, nil
}

// annotate adds to the audit log what a webhook's response would add. A key keeps the value of the
// first round. Keys of Kubernetes' own policies, which have a slash, are those of an API server.
func (p *Plugin) annotate(ctx context.Context, phase usher.Phase, a admission.Attributes, d usher.Decision) {
	add := func(key, value string) {
		if err := a.AddAnnotation(key, value); err != nil {
			p.log.DebugContext(ctx, "audit annotation not added", "key", key, "error", err)
		}
	}
	own := maps.Clone(d.Audit)
	for key, value := range d.Audit {
		if strings.Contains(key, "/") {
			add(key, value)
			delete(own, key)
		}
	}
	for key, value := range answer.Audit(own) {
		add(string(phase)+domain+key, value)
	}
}

// forbidden is the error with which an API server denies a request because of its own policies. Those
// that mutate do not name the object.
func forbidden(phase usher.Phase, a admission.Attributes, denial *metav1.Status) error {
	err := admission.NewForbidden(a, errors.New(denial.Message))
	if told, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsForbidden(err) {
		told.ErrStatus.Reason, told.ErrStatus.Code = denial.Reason, denial.Code
		told.ErrStatus.Details.Causes = append(told.ErrStatus.Details.Causes, metav1.StatusCause{Message: denial.Message})
		if phase == usher.Mutate {
			told.ErrStatus.Message = denial.Message
		}
	}
	return err
}

// undecided denies a request that could not be decided.
func (p *Plugin) undecided(ctx context.Context, r *usher.Request, reason error) error {
	p.log.ErrorContext(ctx, "request denied without a decision", "uid", r.UID, "phase", r.Phase,
		"resource", strings.TrimPrefix(r.Resource.GroupResource().String(), "."), "namespace", r.Namespace, "name", r.Name, "error", reason)
	return refusal(answer.Undecided(reason))
}

func refusal(status *metav1.Status) error { return answer.Error(deniedBy, status) }
