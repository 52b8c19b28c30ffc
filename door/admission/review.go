package admission

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonscan"
	"github.com/usher-dev/usher/internal/jsontree"
)

const (
	kind    = "AdmissionReview"
	v1      = "admission.k8s.io/v1"
	v1beta1 = "admission.k8s.io/v1beta1"
	// maxUID is the longest uid that is echoed, in bytes. API servers send 36.
	maxUID = 256
)

// A review is the request in an AdmissionReview. Both versions have the same fields.
type review struct {
	apiVersion string
	kind       string
	request    usher.Request
	// asks reports whether there is a request.
	asks  bool
	meter meter
}

// decode reads a review. Objects and strings are not copied: they are parts of body, which must not
// change any more. After an error, r has the fields before it.
func (r *review) decode(body []byte) error {
	r.meter.large = len(body) >= heavy
	s := &jsonscan.Scanner{}
	s.Reset(body, unsafe.String(unsafe.SliceData(body), len(body)))
	s.Watch(r.meter.watch())
	if err := s.Object(r.field); err != nil {
		return fmt.Errorf("decode AdmissionReview: %w", err)
	}
	if err := s.End(); err != nil {
		return fmt.Errorf("decode AdmissionReview: %w", err)
	}
	if r.request.Requested == r.request.Kind && r.request.RequestedResource == r.request.Resource {
		r.request.Requested, r.request.RequestedResource = schema.GroupVersionKind{}, schema.GroupVersionResource{}
	}
	return r.check()
}

func (r *review) field(s *jsonscan.Scanner, key []byte) error {
	switch string(key) {
	case "apiVersion":
		return s.String(&r.apiVersion)
	case "kind":
		return s.String(&r.kind)
	case "request":
		if s.Null() {
			return nil
		}
		r.asks = true
		return s.Object(r.requestField)
	}
	_, err := s.Value()
	return err
}

func (r *review) requestField(s *jsonscan.Scanner, key []byte) error {
	q := &r.request
	switch string(key) {
	case "uid":
		return s.String(&q.UID)
	case "kind":
		return triple(s, &q.Kind.Group, &q.Kind.Version, &q.Kind.Kind)
	case "requestKind":
		return triple(s, &q.Requested.Group, &q.Requested.Version, &q.Requested.Kind)
	case "requestResource":
		return triple(s, &q.RequestedResource.Group, &q.RequestedResource.Version, &q.RequestedResource.Resource)
	case "resource":
		return triple(s, &q.Resource.Group, &q.Resource.Version, &q.Resource.Resource)
	case "subResource":
		return s.String(&q.Subresource)
	case "name":
		return s.String(&q.Name)
	case "namespace":
		return s.String(&q.Namespace)
	case "operation":
		return s.String((*string)(&q.Operation))
	case "userInfo":
		return readUser(s, &q.User)
	case "dryRun":
		return s.Bool(&q.DryRun)
	case "object":
		r.meter.turn(q.User.Name)
		return r.raw(s, &q.Object)
	case "oldObject":
		r.meter.turn(q.User.Name)
		return r.raw(s, &q.OldObject)
	case "options":
		return r.raw(s, &q.Options)
	}
	_, err := s.Value()
	return err
}

// triple reads a group, version and kind or resource.
func triple(s *jsonscan.Scanner, group, version, what *string) error {
	if s.Null() {
		return nil
	}
	return s.Object(func(s *jsonscan.Scanner, key []byte) error {
		switch string(key) {
		case "group":
			return s.String(group)
		case "version":
			return s.String(version)
		case "kind", "resource":
			return s.String(what)
		}
		_, err := s.Value()
		return err
	})
}

func readUser(s *jsonscan.Scanner, user *usher.User) error {
	if s.Null() {
		return nil
	}
	return s.Object(func(s *jsonscan.Scanner, key []byte) error {
		switch string(key) {
		case "username":
			return s.String(&user.Name)
		case "uid":
			return s.String(&user.UID)
		case "groups":
			return s.Strings(&user.Groups)
		case "extra":
			return s.StringLists(&user.Extra)
		}
		_, err := s.Value()
		return err
	})
}

// raw reads an object, or null, without looking inside.
func (r *review) raw(s *jsonscan.Scanner, target **usher.Object) error {
	text, skipIndex, err := s.RawObject()
	if err == nil && text != nil {
		r.meter.mind(&skipIndex)
		*target = jsontree.NewObject(text, skipIndex).(*usher.Object)
	}
	return err
}

// check returns why a review cannot be decided.
func (r *review) check() error {
	q := &r.request
	switch {
	case r.kind != kind:
		return fmt.Errorf("kind is %q: expected %s", jsonscan.Clip(r.kind), kind)
	case r.apiVersion != v1 && r.apiVersion != v1beta1:
		return fmt.Errorf("apiVersion is %q: expected %s or %s", jsonscan.Clip(r.apiVersion), v1, v1beta1)
	case !r.asks:
		return errors.New("request is missing")
	case q.UID == "":
		return errors.New("request.uid is missing")
	case len(q.UID) > maxUID:
		return fmt.Errorf("request.uid is longer than %d bytes", maxUID)
	case q.Kind.Kind == "":
		return errors.New("request.kind is missing")
	case q.Resource.Resource == "":
		return errors.New("request.resource is missing")
	case !slices.Contains(usher.Operations(), q.Operation):
		return fmt.Errorf("request.operation is %q: expected one of %q", jsonscan.Clip(string(q.Operation)), usher.Operations())
	case q.Object == nil && (q.Operation == usher.Create || q.Operation == usher.Update):
		return fmt.Errorf("request.object is missing: %s has one", q.Operation)
	case q.OldObject == nil && (q.Operation == usher.Update || q.Operation == usher.Delete):
		return fmt.Errorf("request.oldObject is missing: %s has one", q.Operation)
	}
	return nil
}

// identified reports whether enough of a review is known to respond to it.
func (r *review) identified() bool {
	return r.kind == kind && (r.apiVersion == v1 || r.apiVersion == v1beta1) &&
		r.request.UID != "" && len(r.request.UID) <= maxUID
}
