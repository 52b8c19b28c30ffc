package fact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Bounds say which facts a rule may ask for. Nil Bounds allow every fact.
type Bounds struct {
	// Namespace is where objects have to be: objects of the kinds in Reads, and the Namespace
	// itself. Empty allows every object. A rule with a Namespace asks nothing about access: who
	// may do what elsewhere is not for its author to know.
	Namespace string
	// Reads are what the rule is known to read in Namespace.
	Reads []Read
	// Anywhere, if set, reports the kinds whose objects may be in any namespace, or cluster-scoped.
	Anywhere func(schema.GroupKind) bool
	// Hosts are where HTTP requests may go.
	Hosts Hosts
}

// A Read is a kind of object that a rule may ask for.
type Read struct {
	APIVersion, Kind string
	// Name is that of the object; empty if it depends on the request.
	Name string
	// Lists means that a selector chooses the object.
	Lists bool
}

// GroupKind is the kind without its version.
func (r Read) GroupKind() schema.GroupKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind()
}

// Check returns why ref is not allowed, nil if it is.
func (b *Bounds) Check(ref Ref) error {
	if b == nil {
		return nil
	}
	return ref.Check(b)
}

// Check implements [Ref]: requests go to some hosts.
func (h *HTTP) Check(b *Bounds) error {
	if err := b.Hosts.check(h.URL); err != nil || h.Auth == nil {
		return err
	}
	return b.Hosts.check(h.Auth.URL)
}

// Check implements [Ref].
func (o *Object) Check(b *Bounds) error {
	kind := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind()
	switch {
	case b.Namespace == "" || b.anywhere(kind) || b.isOwnNamespace(o):
		return nil
	case o.Namespace != b.Namespace:
		return b.elsewhere()
	case !slices.ContainsFunc(b.Reads, func(r Read) bool { return r.GroupKind() == kind }):
		return fmt.Errorf("a policy of namespace %s does not read objects of the kind %s this way", b.Namespace, kind)
	}
	return nil
}

// Within returns an object as a rule with these bounds may ask for it: whether there is one in no namespace is not
// for the author of a rule with a Namespace to know, unless its kind may be anywhere.
func (b *Bounds) Within(o *Object) *Object {
	if b == nil || b.Namespace == "" || !o.AnyScope || b.isOwnNamespace(o) || b.anywhere(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind()) {
		return o
	}
	within := *o
	within.Namespace, within.AnyScope = cmp.Or(o.Namespace, b.Namespace), false
	return &within
}

// Resolve resolves ref if it is allowed, and returns the value if that is.
func (b *Bounds) Resolve(ctx context.Context, from Resolver, ref Ref) (any, error) {
	if b == nil {
		return from.Resolve(ctx, ref)
	}
	if err := ref.Check(b); err != nil {
		return nil, err
	}
	o, isObject := ref.(*Object)
	if isObject {
		ref = b.Within(o)
	}
	value, err := from.Resolve(ctx, ref)
	if _, misplaced := errors.AsType[*WrongScope](err); misplaced && ref != Ref(o) {
		return nil, b.elsewhere()
	}
	if err == nil && isObject {
		err = b.checkValue(o, value)
	}
	if err != nil {
		return nil, err
	}
	return value, nil
}

// checkValue returns why the value of an object, which has passed Check, may not be used: it is elsewhere.
func (b *Bounds) checkValue(o *Object, value any) error {
	if b.Namespace == "" || b.anywhere(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind()) || b.isOwnNamespace(o) {
		return nil
	}
	objects, isList := value.([]any)
	if !isList {
		objects = []any{value}
	}
	for _, object := range objects {
		tree, _ := object.(map[string]any)
		metadata, _ := tree["metadata"].(map[string]any)
		if namespace, _ := metadata["namespace"].(string); tree != nil && namespace != b.Namespace {
			return b.elsewhere()
		}
	}
	return nil
}

func (b *Bounds) elsewhere() error {
	return fmt.Errorf("a policy of namespace %s reads objects of that namespace only", b.Namespace)
}

func (b *Bounds) anywhere(kind schema.GroupKind) bool { return b.Anywhere != nil && b.Anywhere(kind) }

func (b *Bounds) isOwnNamespace(o *Object) bool {
	return o.APIVersion == "v1" && o.Kind == "Namespace" && o.Name == b.Namespace && (o.Namespace == "" || o.AnyScope)
}

// Hosts are hosts that HTTP requests may go to: names such as cmdb.example, which include every
// port, names with a port, wildcards such as *.example for the names below a domain, and "*" for
// every host. No Hosts allow none.
type Hosts []string

// Any reports whether every host is allowed.
func (h Hosts) Any() bool { return slices.Contains(h, "*") }

// Allow reports whether requests may go to a host, which may have a port behind a colon.
func (h Hosts) Allow(host string) bool {
	host = strings.ToLower(host)
	name := (&url.URL{Host: host}).Hostname()
	return slices.ContainsFunc(h, func(allowed string) bool {
		allowed = strings.ToLower(allowed)
		if domain, ok := strings.CutPrefix(allowed, "*."); ok {
			return strings.HasSuffix(name, "."+domain)
		}
		return allowed == "*" || allowed == host || allowed == name || allowed == "["+name+"]"
	})
}

func (h Hosts) check(address string) error {
	u, err := url.Parse(address)
	switch {
	case h.Any():
		return nil
	case len(h) == 0:
		return errors.New("HTTP facts are off for this policy")
	case err != nil:
		return errors.New("the URL cannot be read")
	case !h.Allow(u.Host):
		return fmt.Errorf("HTTP facts do not come from %s: allowed are %s", u.Host, strings.Join(h, ", "))
	}
	return nil
}
