package fact

import (
	"slices"

	usher "github.com/usher-dev/usher"
)

// maxSampled limits the bytes that a sample keeps: objects can have a megabyte each.
const maxSampled = 32 << 20

// A Sample limits a list of objects that may be long. The value is a [*Sampled]: the objects without
// a controller and one of each controller first, since objects of one controller are mostly alike.
type Sample struct {
	// Most is how many objects there are at most.
	Most int
	// Paths are what is kept of each object, besides its name and its owners.
	Paths *usher.Paths
}

// Kept returns the paths of what is kept of each object.
func (s *Sample) Kept() *usher.Paths {
	kept := s.Paths.Clone()
	kept.Add("apiVersion")
	kept.Add("kind")
	kept.Add("metadata", "name")
	kept.Add("metadata", "namespace")
	kept.Add("metadata", "ownerReferences")
	return kept
}

// Sampled is the value of a list with a [Sample].
type Sampled struct {
	Objects []Item
	// Total is how many objects there are, also those that were left out.
	Total int
}

// An Item is an object of a list, as JSON, or as a tree if there is none.
type Item struct {
	JSON    []byte
	Decoded map[string]any
}

// Tree returns the object. That of JSON is not kept.
func (i *Item) Tree() (map[string]any, error) {
	if i.JSON == nil {
		return i.Decoded, nil
	}
	return usher.RawObject(i.JSON).Tree()
}

// A Sampler collects a sample in bounded memory.
type Sampler struct {
	most        int
	controllers map[string]bool
	// first are objects without a controller and the first of each, others the others.
	first, others []Item
	weight, total int
}

// NewSampler returns a Sampler for a sample.
func NewSampler(s *Sample) *Sampler { return &Sampler{most: s.Most, controllers: map[string]bool{}} }

// Add adds an object. The tree has at least its owners.
func (s *Sampler) Add(o Item, tree map[string]any) {
	s.total++
	controller := controllerOf(tree)
	if s.controllers[controller] {
		if s.fits(o) {
			s.others = append(s.others, o)
			s.weight += len(o.JSON)
		}
		return
	}
	for !s.fits(o) && len(s.others) > 0 {
		last := len(s.others) - 1
		s.weight -= len(s.others[last].JSON)
		s.others = s.others[:last]
	}
	if !s.fits(o) {
		return
	}
	if controller != "" {
		s.controllers[controller] = true
	}
	s.first = append(s.first, o)
	s.weight += len(o.JSON)
}

func (s *Sampler) fits(o Item) bool {
	return len(s.first)+len(s.others) < s.most && s.weight+len(o.JSON) <= maxSampled
}

// Full reports whether no other object can be among the sampled ones.
func (s *Sampler) Full() bool {
	return len(s.first) >= s.most || s.weight >= maxSampled && len(s.others) == 0
}

// Sampled returns the sample. There are more objects than were added.
func (s *Sampler) Sampled(more int) *Sampled {
	return &Sampled{Objects: slices.Concat(s.first, s.others), Total: s.total + more}
}

// controllerOf returns the UID of the controller of an object, empty if it has none.
func controllerOf(tree map[string]any) string {
	metadata, _ := tree["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	for _, item := range owners {
		owner, _ := item.(map[string]any)
		if is, _ := owner["controller"].(bool); is {
			uid, _ := owner["uid"].(string)
			return uid
		}
	}
	return ""
}
