package apiserver

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/access"
	"github.com/usher-dev/usher/internal/jsonpatch"
)

// A question is a request to the decider, and its decision.
type question struct {
	request  *usher.Request
	decision usher.Decision
	// versioned has the objects in the version that the decision is about.
	versioned *admission.VersionedAttributes
}

// question returns the question about a request, nil if the request is not covered.
func (p *Plugin) question(phase usher.Phase, a admission.Attributes, o admission.ObjectInterfaces) (*question, error) {
	r := headers(phase, a)
	if !p.covers(r) && !p.coversEquivalent(r, o) {
		return nil, nil
	}
	versioned, err := admission.NewVersionedAttributes(a, r.Kind, o)
	if err != nil {
		return nil, fmt.Errorf("convert object to %s: %w", r.Kind, err)
	}
	for _, part := range []struct {
		name string
		from runtime.Object
		to   **usher.Object
	}{
		{"object", versioned.VersionedObject, &r.Object},
		{"old object", versioned.VersionedOldObject, &r.OldObject},
		{"options", a.GetOperationOptions(), &r.Options},
	} {
		if *part.to, err = encode(part.from); err != nil {
			return nil, fmt.Errorf("encode %s: %w", part.name, err)
		}
	}
	if !p.covers(r) {
		return nil, nil
	}
	return &question{request: r, versioned: versioned}, nil
}

// coversEquivalent reports whether r is covered in another version of its resource, and if so
// changes r to that version, as matchPolicy Equivalent does for webhooks: a policy cannot be
// bypassed with another version.
func (p *Plugin) coversEquivalent(r *usher.Request, o admission.ObjectInterfaces) bool {
	mapper := o.GetEquivalentResourceMapper()
	if mapper == nil {
		return false
	}
	requested := *r
	for _, resource := range mapper.EquivalentResourcesFor(requested.Resource, requested.Subresource) {
		kind := mapper.KindFor(resource, requested.Subresource)
		if resource == requested.Resource || kind.Empty() {
			continue
		}
		r.Resource, r.Kind = resource, kind
		r.RequestedResource, r.Requested = requested.Resource, requested.Kind
		if p.covers(r) {
			return true
		}
	}
	*r = requested
	return false
}

// headers returns a request without its objects.
func headers(phase usher.Phase, a admission.Attributes) *usher.Request {
	r := &usher.Request{
		UID:         string(uuid.NewUUID()),
		Phase:       phase,
		Operation:   usher.Operation(a.GetOperation()),
		Kind:        a.GetKind(),
		Resource:    a.GetResource(),
		Subresource: a.GetSubresource(),
		Name:        a.GetName(),
		Namespace:   a.GetNamespace(),
		User:        access.User(a.GetUserInfo()),
		DryRun:      a.IsDryRun(),
	}
	if again := a.GetReinvocationContext(); again != nil {
		r.Reinvocation = phase == usher.Mutate && again.IsReinvoke()
	}
	return r
}

// encode returns an object as JSON, since the server changes its own object later.
func encode(object runtime.Object) (*usher.Object, error) {
	if object == nil {
		return nil, nil
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return usher.RawObject(raw), nil
}

// apply applies a patch to the server's object, which is in its internal version. It changes
// nothing that the patch does not change.
func (q *question) apply(patch usher.Patch, o admission.ObjectInterfaces) error {
	if len(patch) == 0 {
		return nil
	}
	tree, err := q.request.Object.Tree()
	if err != nil {
		return err
	}
	tree, effective, err := jsonpatch.Apply(tree, patch)
	if err != nil {
		return fmt.Errorf("apply patch: %w", err)
	}
	if len(effective) == 0 {
		return nil
	}
	patched, err := decode(tree, q.request.Kind, q.versioned.VersionedObject, o)
	if err != nil {
		return fmt.Errorf("decode patched object: %w", err)
	}
	o.GetObjectDefaulter().Default(patched)
	if err := o.GetObjectConvertor().Convert(patched, q.versioned.Attributes.GetObject(), nil); err != nil {
		return fmt.Errorf("convert patched object from %s: %w", q.request.Kind, err)
	}
	return nil
}

// decode converts a tree to an object of the Go type of like. Fields that the type does not have
// are dropped, as in responses of webhooks.
func decode(tree map[string]any, kind schema.GroupVersionKind, like runtime.Object, o admission.ObjectInterfaces) (runtime.Object, error) {
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	var into runtime.Object = &unstructured.Unstructured{}
	if _, custom := like.(*unstructured.Unstructured); !custom {
		if into, err = o.GetObjectCreater().New(kind); err != nil {
			return nil, err
		}
	}
	decoder := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, o.GetObjectCreater(), o.GetObjectTyper(), serializer.SerializerOptions{})
	object, _, err := decoder.Decode(raw, nil, into)
	return object, err
}
