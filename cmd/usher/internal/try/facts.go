package try

import (
	"context"
	"slices"
	"sync"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
)

// A store finds objects among those of --facts, and remembers which ones are missing. With a nil
// store, none are missing.
type store struct {
	objects *object.Store
	// assumed are the namespaces of the requests. They exist, or an API server would refuse these.
	assumed map[string]bool

	mu      sync.Mutex
	missing []string
}

// assume adds the namespaces of requests.
func (s *store) assume(questions []Question) {
	if s == nil {
		return
	}
	s.assumed = map[string]bool{}
	for _, q := range questions {
		s.assumed[q.Request.Namespace] = true
	}
}

// Resolve implements [fact.Resolver].
func (s *store) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	found, err := s.objects.Resolve(ctx, ref)
	unknown := found == nil
	if o := ref.Object; err != nil && o.APIVersion == "v1" && o.Kind == "Namespace" && s.assumed[o.Name] {
		found, err = object.Namespace(o.Name), nil
	}
	if unknown {
		s.mu.Lock()
		defer s.mu.Unlock()
		if name := ref.String(); !slices.Contains(s.missing, name) {
			s.missing = append(s.missing, name)
		}
	}
	return found, err
}

// taken returns the objects that were missing since the last call.
func (s *store) taken() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := s.missing
	s.missing = nil
	return missing
}
