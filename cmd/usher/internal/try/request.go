package try

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/podtemplate"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// A Question is a request of the mutating phase, with the file of its object.
type Question struct {
	File    string
	Request *usher.Request
	// written means that the object has no field that its writer left out, but those of [podtemplate.Defaulted].
	written bool
	// raw is the object without these, if it lacks any.
	raw map[string]any
	// recorded means that the request is as an API server sent it.
	recorded bool
	// unplaced means that nobody says in which namespace the object is: it is judged as in default.
	unplaced bool
	// registered is what the registration in the cluster leaves out, nil if that is not known.
	registered *webhookconfig.Options
}

// unsent returns why API servers do not send the request; "" if they may.
func (q *Question) unsent() string {
	if q.recorded {
		return ""
	}
	if q.registered == nil {
		asByDefault := webhookconfig.Options{Namespace: cluster.DefaultNamespace}
		return asByDefault.Unsent(q.Request)
	}
	return q.registered.Unsent(q.Request)
}

// know tells a store what exists besides its own objects: the namespaces of requests, and the objects of the
// input, as they are before an update.
func (f *requestFlags) know(store *facts.Store, questions []Question) {
	namespaces := make([]string, len(questions))
	for i, q := range questions {
		namespaces[i] = q.Request.Namespace
	}
	store.Assume(namespaces)
	facts.Know(f.known, f.namespace, store)
}

// requests returns the requests that the command line defines.
func (f *requestFlags) requests(cmd *cobra.Command, s cli.Streams) ([]Question, error) {
	in := f.read(cmd, s)
	if in.err != nil {
		return nil, in.err
	}
	var who usher.User
	if slices.ContainsFunc(in.objects, func(in objects.Input) bool { return in.Review == nil }) {
		var err error
		if who, err = f.asker.who(cmd.Context(), &f.user); err != nil {
			return nil, err
		}
	}
	f.slipped = objects.NoteSlips(cmd, s, in.objects, f.knownKinds())
	objects.NoteNamespace(cmd, s, in.objects, f.namespace)
	return f.requestsOf(in.objects, in.olds, who)
}

// requestsOf returns the requests about objects that have been read, made by a user.
func (f *requestFlags) requestsOf(inputs, olds []objects.Input, who usher.User) ([]Question, error) {
	f.known = slices.Concat(objects.Trees(inputs), objects.Trees(olds))
	questions := make([]Question, 0, len(inputs))
	for _, in := range inputs {
		if in.Review != nil {
			questions = append(questions, Question{File: in.File, Request: admission.RequestOf(in.Review), recorded: true})
			continue
		}
		raw := in.Object
		in.Object = podtemplate.Defaulted(raw)
		r, err := f.request(in, olds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.File, err)
		}
		r.User = who
		q := Question{File: in.File, Request: r, written: isWritten(r, in.Object), unplaced: f.place(r), registered: f.registered}
		if q.written && !reflect.DeepEqual(raw, in.Object) {
			q.raw = raw
		}
		questions = append(questions, q)
	}
	return questions, nil
}

func (f *requestFlags) request(in objects.Input, olds []objects.Input) (*usher.Request, error) {
	metadata, _ := in.Object["metadata"].(map[string]any)
	r := policytest.Request{
		Operation:   usher.Operation(f.operation),
		Namespace:   namespaceOf(in.Object),
		Object:      in.Object,
		Resource:    f.resource,
		Subresource: f.subresource,
		DryRun:      f.dryRun,
	}
	if metadata["name"] == nil && metadata["generateName"] == nil {
		r.Name = f.name
	}
	switch r.Operation {
	case usher.Delete:
		r.Object, r.OldObject = nil, in.Object
	case usher.Update:
		old, err := oldOf(in.Object, olds)
		if err != nil {
			return nil, err
		}
		r.OldObject = podtemplate.Defaulted(old)
	case usher.Create, usher.Connect:
	}
	return r.For(usher.Mutate)
}

// namespaceOf returns the namespace that an object names, of a Namespace its own; "" if there is none.
func namespaceOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	field := "namespace"
	if object["kind"] == "Namespace" {
		field = "name"
	}
	namespace, _ := metadata[field].(string)
	return namespace
}

// place sets the namespace of a request about an object that names none: that of -n, or as with kubectl default, of
// which it reports true. Objects of unknown kinds are in that of -n only.
func (f *requestFlags) place(r *usher.Request) (byDefault bool) {
	if r.Namespace != "" {
		return false
	}
	switch namespaced, known := f.scopeOf(r); {
	case f.namespace != "" && (namespaced || !known):
		r.Namespace = f.namespace
	case f.namespace == "" && namespaced:
		r.Namespace = metav1.NamespaceDefault
		return true
	}
	return false
}

// scopeOf reports whether the object of a request is in a namespace, and whether that is known. Kinds of subresources,
// such as a Scale, do not tell: their resource does.
func (f *requestFlags) scopeOf(r *usher.Request) (namespaced, known bool) {
	if f.mapper != nil {
		mapping, err := f.mapper.RESTMapping(r.Kind.GroupKind(), r.Kind.Version)
		if r.Subresource != "" {
			mapping, err = kindOf(f.mapper, r.Resource)
		}
		if err == nil {
			return mapping.Scope.Name() == meta.RESTScopeNameNamespace, true
		}
	}
	if own, ok := api.KindNamed(r.Kind); ok {
		return own.Namespaced, true
	}
	for served := range f.knownKinds().Resources() {
		if r.Subresource == "" && served.Of() == r.Kind || served.Name == r.Resource.Resource && served.Under() == r.Resource.Group {
			return served.Namespaced, true
		}
	}
	return false, false
}

// knownKinds returns the kinds of Kubernetes, and those that the command line defines.
func (f *requestFlags) knownKinds() *kind.Set {
	if f.kinds == nil {
		f.kinds = kind.Recorded()
	}
	return f.kinds
}

// noteNoNamespace prints to s.Err that an object names no namespace, so that a policy is not for it that would be
// in its namespace.
func (f *decideFlags) noteNoNamespace(cmd *cobra.Command, s cli.Streams, questions []Question) {
	for _, q := range questions {
		object, err := q.Request.Target().Tree()
		_, known := f.scopeOf(q.Request)
		if err != nil || !q.unplaced && (known || q.Request.Namespace != "") {
			continue
		}
		target := targetOf(q.Request, object)
		for i := range f.set.Rules {
			r := &f.set.Rules[i]
			target.Namespace = r.Policy.Namespace
			if target.Namespace == "" || target.Namespace == q.Request.Namespace || !r.Match.Matches(&target) {
				continue
			}
			judged := "no policy of a namespace is for it"
			if q.unplaced {
				judged = "it is judged as one of namespace " + q.Request.Namespace
			}
			cli.Notef(cmd, s, "note", "%s names no namespace, so that %s: -n %s says where it is", nameOf(q.Request), judged, target.Namespace)
			return
		}
	}
}

// oldOf finds the object that is updated. A single one may have another name: users compare two
// files.
func oldOf(object map[string]any, olds []objects.Input) (map[string]any, error) {
	switch {
	case len(olds) == 0:
		return nil, errors.New("an UPDATE needs the object as it was: name its file with --old")
	case len(olds) == 1 && olds[0].Object != nil:
		return olds[0].Object, nil
	}
	i := slices.IndexFunc(olds, func(old objects.Input) bool {
		return old.Object != nil && result.ToBe(old.Object) == result.ToBe(object)
	})
	if i < 0 {
		return nil, fmt.Errorf("--old has no %s", result.ToBe(object))
	}
	return olds[i].Object, nil
}
