package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

const (
	// samplePage is how many objects of a sample are read at once, and maxSamplePage how many bytes
	// these may have. If they have more, fewer objects are read at once.
	samplePage    = 250
	maxSamplePage = 16 << 20
	fewer         = 10
)

// A sampling reads the objects of a kind for a sample.
type sampling struct {
	*fact.Sampler

	of *fact.Object
	// kept is what is kept of an object, and about what tells whether it is.
	kept, about *usher.Paths
	// remaining is how many objects have not been read.
	remaining int
}

// sample returns some of the objects that are selected. What has been read when ctx ends counts.
// Memory is used if the kind is watched, which a sample alone is no reason for.
func (r *Resolver) sample(ctx context.Context, m mapping, o *fact.Object, namespace string) (any, error) {
	s := &sampling{Sampler: fact.NewSampler(o.Sample), of: o, kept: o.Sample.Kept(), about: (&fact.Sample{}).Kept()}
	if memory := r.watched(m); memory != nil {
		memory.each(namespace, func(tree map[string]any) {
			s.Add(fact.Item{Decoded: tree}, tree)
		})
		return s.Sampled(0), nil
	}
	read := r.samplePages
	if r.rest == nil {
		read = r.sampleTrees
	}
	err := read(ctx, s, m, namespace)
	sampled := s.Sampled(s.remaining)
	if err != nil && (ctx.Err() == nil || len(sampled.Objects) == 0) {
		return nil, r.explain(err, m, o, namespace)
	}
	return sampled, nil
}

// watched returns the objects of a kind that is watched, or nil.
func (r *Resolver) watched(m mapping) *objects {
	r.mu.RLock()
	k := r.kinds[m.kind]
	r.mu.RUnlock()
	if k == nil {
		return nil
	}
	return k.memory()
}

// sampleTrees reads objects with a client that decodes them.
func (r *reader) sampleTrees(ctx context.Context, s *sampling, m mapping, namespace string) error {
	options := metav1.ListOptions{Limit: samplePage}
	for {
		list, err := r.client.Resource(m.resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range list.Items {
			tree := list.Items[i].Object
			unstructured.RemoveNestedField(tree, "metadata", "managedFields")
			raw, err := usher.TreeObject(tree).Raw()
			if err != nil {
				return err
			}
			if err := s.take(raw); err != nil {
				return err
			}
		}
		if options.Continue = list.GetContinue(); !s.more(options.Continue, list.GetRemainingItemCount()) {
			return nil
		}
	}
}

// samplePages reads objects as bytes, of which little is decoded.
func (r *reader) samplePages(ctx context.Context, s *sampling, m mapping, namespace string) error {
	path := []string{"apis", m.resource.Group, m.resource.Version}
	if m.resource.Group == "" {
		path = []string{"api", m.resource.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	path = append(path, m.resource.Resource)
	next, limit := "", samplePage
	for {
		page, err := r.page(ctx, path, next, limit)
		if errors.Is(err, errPage) && limit > fewer {
			limit /= fewer
			continue
		}
		if err != nil {
			return err
		}
		for _, raw := range page.Items {
			if err := s.take(raw); err != nil {
				return err
			}
		}
		if next = page.Metadata.Continue; !s.more(next, page.Metadata.RemainingItemCount) {
			return nil
		}
	}
}

// A rawPage is a list as the API server sends it.
type rawPage struct {
	Metadata metav1.ListMeta   `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

// errPage is the error of a page whose objects are too large together.
var errPage = errors.New("the objects are too large")

func (r *reader) page(ctx context.Context, path []string, next string, limit int) (*rawPage, error) {
	request := r.rest.Get().AbsPath(path...).SetHeader("Accept", "application/json").WarningHandler(rest.NoWarnings{}).
		Param("limit", strconv.Itoa(limit))
	if next != "" {
		request.Param("continue", next)
	}
	stream, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	body, err := io.ReadAll(io.LimitReader(stream, maxSamplePage+1))
	if err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	if len(body) > maxSamplePage {
		return nil, errPage
	}
	page := &rawPage{}
	if err := json.Unmarshal(body, page); err != nil {
		return nil, fmt.Errorf("decode list: %w", err)
	}
	return page, nil
}

// more reports whether another page is needed, and notes how many objects are left.
func (s *sampling) more(next string, remaining *int64) bool {
	s.remaining = 0
	if remaining != nil {
		s.remaining = int(*remaining)
	}
	return next != "" && !s.Full()
}

// take adds the part of an object that is kept. Lists leave out the kind of their objects.
func (s *sampling) take(raw []byte) error {
	object := usher.RawObject(raw)
	about, err := object.Part(s.about)
	if err != nil {
		return err
	}
	var part []byte
	if part, err = object.AppendPart(nil, s.kept); err != nil {
		return err
	}
	if about["kind"] == nil {
		header := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, s.of.APIVersion, s.of.Kind)
		if len(part) > len("{}") {
			header = append(header, ',')
		}
		part = append(header, part[1:]...)
	}
	s.Add(fact.Item{JSON: part}, about)
	return nil
}
