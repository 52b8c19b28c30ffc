// Package simulate tells what an API server would do with a request: it runs the admission
// chain of k8s.io/apiserver itself, on the webhook configurations, admission policies and
// namespaces of a cluster that consists of files, or of one that is only read, and says
// step by step what was asked, why or why not, and what it changed.
//
//	cluster, err := simulate.FromObjects(objects)
//	s, err := simulate.New(ctx, cluster, simulate.Options{})
//	trace, err := s.Run(ctx, simulate.Request{Operation: usher.Create, Object: pod})
//
// What an API server does before and after that is not simulated: who somebody is and what
// they may do, defaults and validation of built-in kinds, managedFields, quotas and limit
// ranges, and the other plugins that are compiled into kube-apiserver.
//
// The code of k8s.io/apiserver logs with the global logger of klog, to the standard error:
// klog.SetSlogLogger(slog.New(slog.DiscardHandler)) silences it. A [Trace] says more.
package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"

	usher "github.com/usher-dev/usher"
)

// Options say who answers for webhooks. The zero value calls those with a URL, and nobody
// for those that are Services.
type Options struct {
	// Services tells where Services are, by namespace/name or namespace/name:port: an
	// http or https URL. The certificate of the latter is checked as an API server does.
	Services map[string]string
	// Local, if not nil, may answer in process for the webhook of a configuration. If it answers for none of the cluster, that
	// is an error of New.
	Local func(configuration, webhook string) http.Handler
	// Record, if not nil, gets the answers of webhooks; Replay, if not nil, gives them, and
	// then no webhook is called.
	Record, Replay *Recording
	// Timeout is that of a request; 0 means 34 seconds, as for an API server.
	Timeout time.Duration
	// Now is when objects are created; nil means that of the clock.
	Now func() time.Time
}

const defaultTimeout = 34 * time.Second

// A Simulator runs requests. It is safe for concurrent use.
type Simulator struct {
	cluster *Cluster
	options Options
	chain   *chain
	stop    context.CancelFunc
}

// New returns a simulator, once the cluster is read. Close it.
func New(ctx context.Context, cluster *Cluster, o Options) (*Simulator, error) {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case o.Replay != nil:
		// Reviews have the time in them, and are to be those that were recorded.
		o.Now = func() time.Time { return o.Replay.Time }
	case o.Record != nil:
		now := o.Now().UTC().Truncate(time.Second)
		o.Record.Time, o.Now = now, func() time.Time { return now }
	}
	s := &Simulator{cluster: cluster, options: o}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	var err error
	if s.chain, err = newChain(running, s); err != nil {
		stop()
		return nil, err
	}
	if err := s.chain.start(ctx, running.Done()); err != nil {
		stop()
		return nil, err
	}
	if o.Local != nil && !s.chain.answers(o.Local) {
		stop()
		return nil, errUnasked
	}
	return s, nil
}

// errUnasked is the error of options whose policies would decide nothing.
var errUnasked = errors.New("no webhook configuration of the cluster sends requests to Options.Local, so that its policies decide nothing: add the " +
	"webhook configurations of Usher to the objects, which 'kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations usher -o yaml' prints where Usher runs; " +
	"simulate.Registered, and 'usher simulate -p POLICIES', make those for policies in files")

// Close ends what runs in the background.
func (s *Simulator) Close() { s.stop() }

// Run sends a request. The error is that of a request that makes no sense; one that is
// refused is a trace that says so.
func (s *Simulator) Run(ctx context.Context, request Request) (*Trace, error) {
	p, err := s.prepare(&request)
	if err != nil {
		return nil, err
	}
	r := newRun(s, p)
	ctx, cancel := context.WithTimeout(r.context(ctx), s.options.Timeout)
	defer cancel()
	start := time.Now()
	err = r.admit(ctx)
	r.trace.Took = time.Since(start)
	if ctx.Err() != nil && s.options.Timeout < defaultTimeout {
		// The server gives up on what takes longer than the client said before the plugins do.
		err = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}
	return r.finish(err)
}

// admit does what the API server does with a decoded request, up to the point at which it
// would be stored.
func (r *run) admit(ctx context.Context) error {
	for _, field := range r.request.unknown {
		r.AddWarning("", field.Error())
	}
	if r.request.operation == admission.Create {
		if err := r.wipe(); err != nil {
			return err
		}
	}
	if err := r.mutate(ctx); err != nil {
		return err
	}
	if err := r.fill(); err != nil {
		return err
	}
	return r.validate(ctx)
}

// wipe removes what a client cannot set on a new object.
func (r *run) wipe() error {
	object, err := meta.Accessor(r.request.object)
	if err != nil {
		// Some subresources have no metadata.
		return nil //nolint:nilerr // as the comment says
	}
	rest.WipeObjectMetaSystemFields(object)
	object.SetManagedFields(nil)
	return r.checkNamespace(object)
}

// checkNamespace refuses an object whose namespace is not that of the request.
func (r *run) checkNamespace(object metav1.Object) error {
	expected := ""
	if r.request.namespaced {
		expected = r.request.namespace
	}
	return rest.EnsureObjectNamespaceMatchesRequestNamespace(expected, object)
}

func (r *run) mutate(ctx context.Context) error {
	mutation, ok := r.sim.chain.plugins.(admission.MutationInterface)
	if !ok || !mutation.Handles(r.request.operation) {
		return nil
	}
	r.phase = usher.Mutate
	return mutation.Admit(ctx, r.attributes(r.request.object, r.request.name), r.sim.chain.interfaces(r))
}

// placeholderUID replaces the uid that an API server would generate.
const placeholderUID = "00000000-0000-0000-0000-000000000000"

// fill sets what the API server does between mutation and validation.
func (r *run) fill() error {
	p := r.request
	if p.object == nil || p.subresource != "" || p.operation == admission.Connect || !p.stored() {
		return nil
	}
	object, err := meta.Accessor(p.object)
	if err != nil {
		return nil //nolint:nilerr // nothing to fill in
	}
	if err := r.checkNamespace(object); err != nil {
		return err
	}
	if p.operation == admission.Update {
		return r.keep(object)
	}
	object.SetUID(placeholderUID)
	object.SetCreationTimestamp(metav1.NewTime(r.sim.options.Now().UTC().Truncate(time.Second)))
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(object.GetGenerateName() + "xxxxx")
	}
	if object.GetName() == "" {
		missing := field.Required(field.NewPath("metadata", "name"), "name or generateName is required")
		return apierrors.NewInvalid(p.kind.GroupKind(), "", field.ErrorList{missing})
	}
	return nil
}

// keep restores what an update cannot change.
func (r *run) keep(object metav1.Object) error {
	old, err := meta.Accessor(r.request.old)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	object.SetGeneration(old.GetGeneration())
	if object.GetUID() == "" {
		object.SetUID(old.GetUID())
	}
	if created := old.GetCreationTimestamp(); !created.IsZero() {
		object.SetCreationTimestamp(created)
	}
	if !old.GetDeletionTimestamp().IsZero() {
		object.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	return nil
}

func (r *run) validate(ctx context.Context) error {
	validation, ok := r.sim.chain.plugins.(admission.ValidationInterface)
	if !ok || !validation.Handles(r.request.operation) {
		return nil
	}
	name := r.request.name
	if object, err := meta.Accessor(r.request.object); err == nil && name == "" {
		name = object.GetName()
	}
	r.phase = usher.Validate
	return validation.Validate(ctx, r.attributes(r.request.object, name), r.sim.chain.interfaces(r))
}

// finish completes the trace with what the client gets.
func (r *run) finish(err error) (*Trace, error) {
	t := r.trace
	t.Warnings, t.Audit = r.shown(), r.audit
	if err != nil {
		t.Error = statusOf(err)
		return t, nil
	}
	t.Admitted = true
	var result runtime.Object = r.request.object
	if result == nil {
		result = r.request.old
	}
	t.Result, err = treeOf(result)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return t, nil
}

// statusOf is an error as a client gets it: one that is not made for clients has code 500.
func statusOf(err error) *metav1.Status {
	status := metav1.Status{Message: err.Error()}
	if known := (apierrors.APIStatus)(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	status.Status = cmp.Or(status.Status, metav1.StatusFailure)
	status.Code = cmp.Or(status.Code, http.StatusInternalServerError)
	return &status
}
