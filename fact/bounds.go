package fact

import (
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
		return fmt.Errorf("a policy of namespace %s reads objects of that namespace only", b.Namespace)
	case !slices.ContainsFunc(b.Reads, func(r Read) bool { return r.GroupKind() == kind }):
		return fmt.Errorf("a policy of namespace %s does not read objects of the kind %s this way", b.Namespace, kind)
	}
	return nil
}

// CheckValue returns why the value of ref, which has passed Check, may not be used: an object
// that is in no namespace was found through a reference that left that open.
func (b *Bounds) CheckValue(ref Ref, value any) error {
	o, ok := ref.(*Object)
	if b == nil || b.Namespace == "" || !ok {
		return nil
	}
	if b.anywhere(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind()) || b.isOwnNamespace(o) {
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
			return fmt.Errorf("a policy of namespace %s reads objects of that namespace only", b.Namespace)
		}
	}
	return nil
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
