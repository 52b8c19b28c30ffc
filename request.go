package usher

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Phase is the question of a [Request].
type Phase string

// The phases, in the order in which an API server asks them.
const (
	// Authorize asks whether a user may do something.
	Authorize Phase = "authorize"
	// Mutate asks for changes of the object.
	Mutate Phase = "mutate"
	// Validate asks whether the final object may be stored.
	Validate Phase = "validate"
)

// An Operation is what the API server is about to do to an object.
type Operation string

// The operations of an admission request.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Operations lists every [Operation].
func Operations() []Operation { return []Operation{Create, Update, Delete, Connect} }

// A Request is one question to a [Decider], independent of the protocol and version it arrived in.
// Deciders must not change it: doors and rules share it.
type Request struct {
	// UID identifies the request in logs. Doors echo it where the protocol asks for it.
	UID       string
	Phase     Phase
	Operation Operation

	// Kind is the kind of Object (or of OldObject on Delete), Resource and Subresource
	// the endpoint that was called: a CONNECT to pods/exec has the kind PodExecOptions
	// and the resource pods. Policies select by either: without both, some do not match.
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	Subresource string

	// Requested is the kind in the version that the client used, if the API server converted the
	// object to another version for this request; otherwise it is zero.
	Requested schema.GroupVersionKind
	// RequestedResource is the resource that the client used, if Requested is set.
	RequestedResource schema.GroupVersionResource
	// Entry is the name of the webhook entry that was called, such as validate or mutate-v1: only
	// its rules decide. If it is empty, all rules decide.
	Entry string

	// Trusted reports that the sender of the request has authenticated as an API server: by a
	// certificate, by a token, or by a URL path that only API servers know.
	Trusted bool

	// Reinvocation reports that the request is decided once more, after others have changed the object.
	// Admission policies with reinvocationPolicy Never leave it then. API servers do not tell webhooks.
	Reinvocation bool

	// Name is empty if the name is not generated yet, and if the object is one of a collection that is
	// deleted: [Request.ObjectName] knows that one. Namespace is empty for cluster-scoped
	// objects; a Namespace object has its own name there.
	Name      string
	Namespace string

	User   User
	DryRun bool

	// Access is what an Authorize request asks for; it is nil in the other phases, which have
	// Operation and Kind instead.
	Access *Access

	// Object is nil on Delete, OldObject on Create and Connect.
	Object    *Object
	OldObject *Object
	// Options are the CreateOptions, UpdateOptions or DeleteOptions; nil on Connect.
	Options *Object
}

// Target returns the object that programs and selectors read: the object, or on Delete the object
// that is deleted. It is nil if the request has neither.
func (r *Request) Target() *Object {
	if r.Object != nil {
		return r.Object
	}
	return r.OldObject
}

// namePath leads to the name of an object.
var namePath = func() *Paths {
	paths := &Paths{}
	paths.Add("metadata", "name")
	return paths
}()

// ObjectName returns the name of the object: Name, or the one in OldObject if that is deleted with its
// collection. It is empty if there is none.
func (r *Request) ObjectName() string {
	if r.Name != "" || r.Operation != Delete {
		return r.Name
	}
	tree, err := r.OldObject.Part(namePath)
	if err != nil {
		return ""
	}
	metadata, _ := tree["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// A User is the user who makes the request.
type User struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Access is an action that a user asks for. If it is on a resource, Resource, Subresource,
// Namespace and Name of the [Request] name it: an empty Namespace means all namespaces or a
// cluster-scoped resource, an empty Name all objects. Each of these, and Verb, may be "*".
type Access struct {
	// Verb is a Kubernetes verb such as list or impersonate, or the lower-case HTTP
	// method of a request for a path.
	Verb string
	// Path is the URL path of a request that is not for a resource. NonResource reports whether it
	// is one: an empty Path is valid.
	Path        string
	NonResource bool
	// Labels and Fields are what the selectors of a list, watch or deletecollection require of
	// every object. All requirements hold at once. API servers also set Name of a Request to the name that
	// Fields require in metadata.name: without it, the request is for objects of any name.
	Labels []Requirement
	Fields []Requirement
}

// A Requirement is one clause of a label or field selector, in the terms of a SubjectAccessReview.
// A Requirement with an unknown operator requires nothing.
type Requirement struct {
	Key string
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator string
	Values   []string
}
