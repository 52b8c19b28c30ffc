package simulate

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	usher "github.com/usher-dev/usher"
)

// A Request is what a client asks of the API server. Objects are as a client writes them.
type Request struct {
	Operation usher.Operation
	// Object is what is created or updated, or the options of a CONNECT; nil on DELETE.
	Object map[string]any
	// OldObject is what there is. If it is nil, the object in the cluster is taken.
	OldObject map[string]any
	// Resource, such as deployments or deployments.apps, is needed if the kind does not
	// tell, and Subresource if it is not the object itself.
	Resource, Subresource string
	// Name and Namespace are those of the object unless set.
	Name, Namespace string
	// User is an administrator if it has no name.
	User   usher.User
	DryRun bool
	// Options are the CreateOptions, UpdateOptions or DeleteOptions; those of DryRun alone unless set.
	Options map[string]any
}

// A prepared is a request as the API server has decoded it.
type prepared struct {
	endpoint
	operation admission.Operation
	object    runtime.Object
	old       runtime.Object
	before    map[string]any
	name      string
	namespace string
	user      user.Info
	options   runtime.Object
	dryRun    bool
	// unknown are the fields of the object that its kind does not have.
	unknown []error
}

// prepare decodes a request.
func (s *Simulator) prepare(r *Request) (*prepared, error) {
	if !slices.Contains(usher.Operations(), r.Operation) {
		return nil, fmt.Errorf("operation %q is none of %v", r.Operation, usher.Operations())
	}
	subject := r.Object
	if r.Operation == usher.Delete {
		subject = r.OldObject
	}
	if subject == nil {
		return nil, fmt.Errorf("%s needs an object", r.Operation)
	}
	e, err := s.cluster.endpoints.find(kindOfTree(subject), r.Resource, r.Subresource)
	if err != nil {
		return nil, err
	}
	p := &prepared{
		endpoint: e, operation: admission.Operation(r.Operation), before: subject,
		user: userOf(r.User), dryRun: r.DryRun,
	}
	if p.options, err = optionsOf(r); err != nil {
		return nil, err
	}
	if p.object, p.unknown, err = s.decode(r.Object, e.kind); err != nil {
		return nil, err
	}
	if p.object != nil {
		// With the empty fields that the types write.
		if p.before, err = treeOf(p.object); err != nil {
			return nil, err
		}
	}
	p.place(r, subject)
	if p.namespaced && p.namespace == "" {
		return nil, errors.New("the namespace is missing")
	}
	return p, s.findOld(r, p)
}

func (s *Simulator) decode(tree map[string]any, kind schema.GroupVersionKind) (runtime.Object, []error, error) {
	if tree == nil {
		return nil, nil, nil
	}
	object, unknown, err := decodeObject(tree, kind)
	if u, ok := object.(*unstructured.Unstructured); ok {
		for _, path := range s.cluster.custom.complete(u) {
			unknown = append(unknown, fmt.Errorf("unknown field %q", path))
		}
	}
	return object, unknown, err
}

// place finds out name and namespace of a request.
func (p *prepared) place(r *Request, subject map[string]any) {
	metadata, _ := subject["metadata"].(map[string]any)
	p.name, p.namespace = r.Name, r.Namespace
	if p.name == "" {
		p.name, _ = metadata["name"].(string)
	}
	if !p.namespaced {
		p.namespace = ""
		if p.resource.GroupResource() == namespaces {
			p.namespace = p.name
		}
		return
	}
	if p.namespace == "" {
		p.namespace, _ = metadata["namespace"].(string)
	}
}

// findOld decodes the object that there is, for operations that have one.
func (s *Simulator) findOld(r *Request, p *prepared) error {
	if r.Operation != usher.Update && r.Operation != usher.Delete {
		return nil
	}
	old := r.OldObject
	if old == nil {
		var err error
		if old, err = s.cluster.object(p); err != nil {
			return err
		}
	}
	kind := kindOfTree(old)
	var err error
	if p.old, _, err = s.decode(old, kind); err != nil {
		return fmt.Errorf("old object: %w", err)
	}
	return nil
}

func userOf(u usher.User) user.Info {
	if u.Name == "" {
		return &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	}
	groups := slices.Clone(u.Groups)
	if !slices.Contains(groups, user.AllAuthenticated) {
		groups = append(groups, user.AllAuthenticated)
	}
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: groups, Extra: u.Extra}
}

// optionsOf are the options that come with a request.
func optionsOf(r *Request) (runtime.Object, error) {
	var dryRun []string
	if r.DryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	kind := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1"}
	var options runtime.Object
	switch r.Operation {
	case usher.Create:
		kind.Kind = "CreateOptions"
		options = &metav1.CreateOptions{TypeMeta: kind, DryRun: dryRun}
	case usher.Update:
		kind.Kind = "UpdateOptions"
		options = &metav1.UpdateOptions{TypeMeta: kind, DryRun: dryRun}
	case usher.Delete:
		kind.Kind = "DeleteOptions"
		options = &metav1.DeleteOptions{TypeMeta: kind, DryRun: dryRun}
	case usher.Connect:
		return nil, nil
	}
	if r.Options == nil {
		return options, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Options, options); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return options, nil
}
