package usher

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Phase is the question that a [Request] asks.
type Phase string

// The phases, in the order in which an API server asks them.
const (
	// Authorize asks whether a user may do it at all.
	Authorize Phase = "authorize"
	// Mutate asks what to change about the object.
	Mutate Phase = "mutate"
	// Validate asks whether the final object may be stored.
	Validate Phase = "validate"
)

// An Operation is what the API server is about to do with an object.
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

// A Request is one question put to a [Decider], free of the protocol and version it
// came in. Deciders do not change it: the doors and the rules share it.
type Request struct {
	// UID identifies the request in logs. Doors echo it where the protocol asks for it.
	UID       string
	Phase     Phase
	Operation Operation

	// Kind is the kind of Object (or of OldObject on Delete), Resource and Subresource
	// the endpoint that was called: a CONNECT to pods/exec has the kind PodExecOptions
	// and the resource pods.
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	Subresource string

	// Requested is the kind in the version that the client used, if an API server has
	// converted the object to another one for this question, and zero otherwise.
	Requested schema.GroupVersionKind
	// Entry is the name of the webhook entry that is asked, such as validate or mutate-v1:
	// the rules that belong to it decide. Empty is none in particular: all rules decide.
	Entry string

	// Name is empty while a name is still to be generated, Namespace for cluster-scoped
	// objects. A Namespace object carries its own name as Namespace.
	Name      string
	Namespace string

	User   User
	DryRun bool

	// Access is what an Authorize request asks leave to do; nil in the other phases,
	// which have Operation and Kind instead.
	Access *Access

	// Object is nil on Delete, OldObject on Create and Connect.
	Object    *Object
	OldObject *Object
	// Options are the CreateOptions, UpdateOptions or DeleteOptions; nil on Connect.
	Options *Object
}

// Target returns what a rule's program and selectors look at: the object, and on
// Delete the object that is about to go. It is nil when the request carries neither.
func (r *Request) Target() *Object {
	if r.Object != nil {
		return r.Object
	}
	return r.OldObject
}

// A User is who asks.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Access is what a user asks leave to do. A request for a resource carries it in
// Resource, Subresource, Namespace and Name of its [Request], where an empty Namespace
// stands for all namespaces or a cluster-scoped resource, and an empty Name for all of
// them; any of these may be "*", and so may Verb.
type Access struct {
	// Verb is a Kubernetes verb such as list or impersonate, or the lower-case HTTP
	// method of a request for a path.
	Verb string
	// Path is the URL path of a request that is not for a resource; NonResource tells
	// whether it is one, for an empty Path is a path too.
	Path        string
	NonResource bool
	// Labels and Fields are what the selectors of a list, watch or deletecollection
	// demand of every object. All requirements hold at once.
	Labels []Requirement
	Fields []Requirement
}

// A Requirement is one clause of a label or field selector, in the words of a
// SubjectAccessReview. One whose operator is unknown demands nothing.
type Requirement struct {
	Key string
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator string
	Values   []string
}
