package authorization

import (
	"errors"
	"fmt"
	"unicode/utf8"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonscan"
	"github.com/usher-dev/usher/internal/jsontree"
)

const (
	kind    = "SubjectAccessReview"
	v1      = "authorization.k8s.io/v1"
	v1beta1 = "authorization.k8s.io/v1beta1"
)

// A review is the request in a SubjectAccessReview. Its strings are parts of one string.
type review struct {
	apiVersion string
	kind       string
	request    usher.Request
	access     usher.Access
	// resource and path tell which attributes there are.
	resource, path bool
	// groups, requirements and values have the capacity that most reviews need.
	groups       [8]string
	requirements [4]usher.Requirement
	values       [8]string
}

var errNotUTF8 = errors.New("body is not UTF-8 throughout")

// decode reads a review. It copies body once, and does not keep it. Watch is told the memory that
// the review takes; it may be nil.
func (r *review) decode(s *jsonscan.Scanner, body []byte, watch jsontree.Watch) error {
	if !utf8.Valid(body) {
		return errNotUTF8
	}
	s.Reset(body, string(body))
	s.Watch(watch)
	if err := r.read(s, watch); err != nil {
		return fmt.Errorf("decode %s: %w", kind, err)
	}
	if s.Replaced() {
		return fmt.Errorf("decode %s: a string has half a UTF-16 surrogate pair in it", kind)
	}
	return r.check()
}

// read reads the fields. Those of spec are named differently in the two versions: they
// wait until the version is known.
func (r *review) read(s *jsonscan.Scanner, watch jsontree.Watch) error {
	var waiting []byte
	err := s.Object(func(s *jsonscan.Scanner, key []byte) (err error) {
		switch string(key) {
		case "apiVersion":
			return s.String(&r.apiVersion)
		case "kind":
			return s.String(&r.kind)
		case "spec":
			if r.apiVersion == "" {
				waiting, _, err = s.RawObject()
				return err
			}
			return r.spec(s)
		}
		return s.Skip()
	})
	if err == nil {
		err = s.End()
	}
	if err != nil || waiting == nil {
		return err
	}
	replaced := s.Replaced()
	s.Reset(waiting, string(waiting))
	s.Watch(watch)
	if err := r.spec(s); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	if replaced {
		return errNotUTF8
	}
	return nil
}

func (r *review) spec(s *jsonscan.Scanner) error {
	if s.Null() {
		return nil
	}
	groups := "groups"
	if r.apiVersion == v1beta1 {
		groups = "group"
	}
	user := &r.request.User
	return s.Object(func(s *jsonscan.Scanner, key []byte) error {
		switch string(key) {
		case groups:
			user.Groups = r.groups[:0]
			return s.Strings(&user.Groups)
		case "user":
			return s.String(&user.Name)
		case "uid":
			return s.String(&user.UID)
		case "extra":
			return s.StringLists(&user.Extra)
		case "resourceAttributes":
			return r.resourceAttributes(s)
		case "nonResourceAttributes":
			return r.nonResourceAttributes(s)
		}
		return s.Skip()
	})
}

func (r *review) resourceAttributes(s *jsonscan.Scanner) error {
	if s.Null() {
		return nil
	}
	r.resource = true
	q := &r.request
	return s.Object(func(s *jsonscan.Scanner, key []byte) (err error) {
		switch string(key) {
		case "namespace":
			return s.String(&q.Namespace)
		case "verb":
			return s.String(&r.access.Verb)
		case "group":
			return s.String(&q.Resource.Group)
		case "version":
			return s.String(&q.Resource.Version)
		case "resource":
			return s.String(&q.Resource.Resource)
		case "subresource":
			return s.String(&q.Subresource)
		case "name":
			return s.String(&q.Name)
		case "labelSelector":
			r.access.Labels, err = selector(s, r.requirements[:0:3], r.values[:0:6])
			return err
		case "fieldSelector":
			r.access.Fields, err = selector(s, r.requirements[3:3], r.values[6:6])
			return err
		}
		return s.Skip()
	})
}

func (r *review) nonResourceAttributes(s *jsonscan.Scanner) error {
	if s.Null() {
		return nil
	}
	r.path = true
	return s.Object(func(s *jsonscan.Scanner, key []byte) error {
		switch string(key) {
		case "path":
			return s.String(&r.access.Path)
		case "verb":
			return s.String(&r.access.Verb)
		}
		return s.Skip()
	})
}

// selector reads a selector. One in the form of text could not be parsed by the API server, and
// requires nothing. The requirements go to all and values, while these have capacity.
func selector(s *jsonscan.Scanner, all []usher.Requirement, values []string) ([]usher.Requirement, error) {
	if s.Null() {
		return nil, nil
	}
	var text string
	err := s.Object(func(s *jsonscan.Scanner, key []byte) error {
		switch string(key) {
		case "rawSelector":
			return s.String(&text)
		case "requirements":
			if s.Null() {
				return nil
			}
			return s.Array(func(s *jsonscan.Scanner) error {
				var one usher.Requirement
				err := requirement(s, &one, &values)
				all = append(all, one)
				return err
			})
		}
		return s.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case text != "" && len(all) > 0:
		return nil, errors.New("a selector has both rawSelector and requirements; set exactly one")
	case len(all) == 0:
		return nil, nil
	}
	return all, nil
}

func requirement(s *jsonscan.Scanner, r *usher.Requirement, values *[]string) error {
	if s.Null() {
		return nil
	}
	return s.Object(func(s *jsonscan.Scanner, key []byte) error {
		switch string(key) {
		case "key":
			return s.String(&r.Key)
		case "operator":
			return s.String(&r.Operator)
		case "values":
			if s.Null() {
				return nil
			}
			start := len(*values)
			err := s.Strings(values)
			r.Values = (*values)[start:len(*values):len(*values)]
			return err
		}
		return s.Skip()
	})
}

// check returns why a review cannot be decided, and completes the request.
func (r *review) check() error {
	switch {
	case r.kind != kind:
		return fmt.Errorf("kind is %q: expected %s", jsonscan.Clip(r.kind), kind)
	case r.apiVersion != v1 && r.apiVersion != v1beta1:
		return fmt.Errorf("apiVersion is %q: expected %s or %s", jsonscan.Clip(r.apiVersion), v1, v1beta1)
	case r.resource && r.path:
		return errors.New("spec has both resourceAttributes and nonResourceAttributes; set exactly one")
	case !r.resource && !r.path:
		return errors.New("spec has neither resourceAttributes nor nonResourceAttributes; set exactly one")
	}
	r.access.NonResource = r.path
	r.request.Phase, r.request.Access = usher.Authorize, &r.access
	return nil
}
