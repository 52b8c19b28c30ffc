// Package facts finds the objects that policies read in the files that commands get.
package facts

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	facthttp "github.com/usher-dev/usher/fact/http"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// Flags are the flags that say where facts come from.
type Flags struct {
	Files      []string
	AllowLocal bool
	// NoHTTP has no policy call HTTP services.
	NoHTTP bool
	// Namespace is where objects of the files are that name none and are of a kind in namespaces, as with kubectl.
	Namespace string

	objects []map[string]any
}

// OfText returns flags as if a file had the objects of a text.
func OfText(text string) (Flags, error) {
	trees, err := object.Decode([]byte(text))
	if err != nil {
		return Flags{}, fmt.Errorf("facts: %w", err)
	}
	return Flags{objects: trees}, nil
}

// Register adds the flags.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.Files, "facts", nil, "file or folder with objects that exist in the cluster (repeatable); those without a namespace are in that of -n")
	flags.BoolVar(&f.AllowLocal, "allow-local-facts", false, "let policies call HTTP services on loopback and link-local addresses")
}

// Objects returns the objects in the files, which are read once: one may be a pipe. Do not change them.
func (f *Flags) Objects() ([]map[string]any, error) {
	if f.objects == nil && len(f.Files) > 0 {
		trees, err := object.Load(f.Files...)
		if err != nil {
			return nil, fmt.Errorf("--facts: %w", err)
		}
		if f.objects, err = f.place(trees); err != nil {
			return nil, fmt.Errorf("--facts: %w", err)
		}
	}
	return f.objects, nil
}

// Load reads the objects in the files. It returns them, and a resolver of all facts: these objects,
// HTTP services, and what users may do by the roles among the objects.
func (f *Flags) Load() (*Store, fact.Resolver, error) {
	stores, resolvers, err := f.LoadFor(1)
	if err != nil {
		return nil, nil, err
	}
	return stores[0], resolvers[0], nil
}

// LoadFor is [Flags.Load] for n who each ask which of their objects were missing. The files are read once.
func (f *Flags) LoadFor(n int) ([]*Store, []fact.Resolver, error) {
	trees, err := f.Objects()
	if err != nil {
		return nil, nil, err
	}
	access, err := authz.Server(trees)
	if err != nil {
		return nil, nil, fmt.Errorf("--facts: %w", err)
	}
	objects := object.FromTrees(trees)
	stores, resolvers := make([]*Store, n), make([]fact.Resolver, n)
	for i := range stores {
		stores[i] = &Store{objects: objects, files: trees}
		resolvers[i] = f.From(stores[i], access)
	}
	return stores, resolvers, nil
}

// Kinds returns the kinds of Kubernetes, and those of CustomResourceDefinitions among the objects in the files and
// among others.
func (f *Flags) Kinds(others ...map[string]any) (*kind.Set, error) {
	trees, err := f.Objects()
	if err != nil {
		return nil, err
	}
	defined, err := kind.Defined(append(others, trees...))
	if err != nil {
		return nil, err
	}
	return recorded().With(defined), nil
}

// From returns a resolver of all facts: objects, HTTP services, and what users may do.
func (f *Flags) From(objects fact.Resolver, access usher.Decider) fact.Resolver {
	all := fact.Resolvers{fact.Objects: objects, fact.Questions: fact.Access(access)}
	if !f.NoHTTP {
		all[fact.Requests] = facthttp.New(facthttp.Options{AllowLocal: f.AllowLocal})
	}
	return all
}

// FromCluster returns a resolver of the facts of a cluster.
func (f *Flags) FromCluster(c *clients.Set) fact.Resolver {
	objects := clusterfact.New(c.Facts, c.Mapper, clusterfact.Options{})
	return f.From(objects, clusterfact.Authorizer(c.Access.AuthorizationV1().SubjectAccessReviews()))
}

// A Store finds objects among those of --facts and of the input, and remembers which ones are missing. With a
// nil Store, such as with the facts of a cluster, none are missing, and those of the input are no facts.
type Store struct {
	objects *object.Store
	// files are the objects of --facts, and input is what there is beside them.
	files []map[string]any
	input map[result.Identity]bool
	// assumed are the namespaces of the requests.
	assumed map[string]bool
	// labels are those that they have besides the one with their name.
	labels map[string]string
	// absent is the object that a request creates; the zero value is none.
	absent result.Identity

	mu      sync.Mutex
	missing []string
	// read are objects of the input that were found.
	read map[result.Identity]map[string]any
}

// Resolve implements [fact.Resolver].
func (s *Store) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	existing := s.existing()
	o, ok := ref.(*fact.Object)
	if !ok {
		return existing.Resolve(ctx, ref)
	}
	o = anyScope(o)
	found, err := existing.Resolve(ctx, o)
	if o.AnyScope && o.Namespace != "" {
		found = inNamespace(found, o.Namespace)
	}
	name := ""
	if found == nil {
		name = o.String()
	}
	// The object of the request is of the kind, and is there: it is only no fact about itself.
	if o.All && !existing.Has(o.APIVersion, o.Kind) && (o.APIVersion != s.absent.APIVersion || o.Kind != s.absent.Kind) {
		name = o.APIVersion + " " + o.Kind + " *"
	}
	if err != nil && o.APIVersion == "v1" && o.Kind == "Namespace" && s.assumed[o.Name] {
		found, err = s.assume(o.Name), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteRead(found)
	if name != "" {
		if !slices.Contains(s.missing, name) {
			s.missing = append(s.missing, name)
		}
	}
	return found, err
}

// anyScope returns what is asked for so that it is found if it names no namespace: of a kind in namespaces it is then
// in the one in which it is looked for.
func anyScope(o *fact.Object) *fact.Object {
	gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	if o.Namespace == "" || o.AnyScope || !recorded().Has(gvk) || recorded().ClusterScoped(gvk) {
		return o
	}
	anywhere := *o
	anywhere.AnyScope = true
	return &anywhere
}

// TakeMissing returns the objects that were missing since the last call, and as "v1 Pod *" the kinds that
// were listed and of which there is no object.
func (s *Store) TakeMissing() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := s.missing
	s.missing = nil
	slices.Sort(missing)
	return missing
}
