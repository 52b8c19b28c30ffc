package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

const (
	kind    = "AdmissionReview"
	v1      = "admission.k8s.io/v1"
	v1beta1 = "admission.k8s.io/v1beta1"
	// maxUID is the longest uid that is echoed, in bytes. API servers send 36.
	maxUID = 256
)

// A review is an AdmissionReview that asks. Both versions have the same fields.
type review struct {
	apiVersion string
	kind       string
	request    usher.Request
	// asks tells that there is a request.
	asks bool
}

// decodeReview reads a review. The objects are not decoded: they stay where they lie in
// body. With an error it returns what came before.
func decodeReview(body []byte) (*review, error) {
	r := &review{}
	s := &scanner{data: body}
	if err := s.object(r.field); err != nil {
		return r, fmt.Errorf("decode AdmissionReview: %w", err)
	}
	if err := s.end(); err != nil {
		return r, fmt.Errorf("decode AdmissionReview: %w", err)
	}
	return r, r.check()
}

func (r *review) field(s *scanner, key []byte) error {
	switch string(key) {
	case "apiVersion":
		return s.string(&r.apiVersion)
	case "kind":
		return s.string(&r.kind)
	case "request":
		if s.null() {
			return nil
		}
		r.asks = true
		return s.object(r.requestField)
	}
	_, err := s.value()
	return err
}

func (r *review) requestField(s *scanner, key []byte) error {
	q := &r.request
	switch string(key) {
	case "uid":
		return s.string(&q.UID)
	case "kind":
		return s.triple(&q.Kind.Group, &q.Kind.Version, &q.Kind.Kind)
	case "resource":
		return s.triple(&q.Resource.Group, &q.Resource.Version, &q.Resource.Resource)
	case "subResource":
		return s.string(&q.Subresource)
	case "name":
		return s.string(&q.Name)
	case "namespace":
		return s.string(&q.Namespace)
	case "operation":
		return s.string((*string)(&q.Operation))
	case "userInfo":
		return s.user(&q.User)
	case "dryRun":
		return s.bool(&q.DryRun)
	case "object":
		return s.raw(&q.Object)
	case "oldObject":
		return s.raw(&q.OldObject)
	case "options":
		return s.raw(&q.Options)
	}
	_, err := s.value()
	return err
}

// triple reads a group, version and kind or resource.
func (s *scanner) triple(group, version, what *string) error {
	if s.null() {
		return nil
	}
	return s.object(func(s *scanner, key []byte) error {
		switch string(key) {
		case "group":
			return s.string(group)
		case "version":
			return s.string(version)
		case "kind", "resource":
			return s.string(what)
		}
		_, err := s.value()
		return err
	})
}

func (s *scanner) user(user *usher.User) error {
	if s.null() {
		return nil
	}
	return s.object(func(s *scanner, key []byte) error {
		switch string(key) {
		case "username":
			return s.string(&user.Name)
		case "uid":
			return s.string(&user.UID)
		case "groups":
			return s.strings(&user.Groups)
		case "extra":
			return s.extra(&user.Extra)
		}
		_, err := s.value()
		return err
	})
}

func (s *scanner) extra(target *map[string][]string) error {
	if s.null() {
		return nil
	}
	*target = map[string][]string{}
	return s.object(func(s *scanner, key []byte) error {
		var values []string
		err := s.strings(&values)
		(*target)[string(key)] = values
		return err
	})
}

func (s *scanner) strings(target *[]string) error {
	if s.null() {
		return nil
	}
	return s.array(func(s *scanner) error {
		var text string
		err := s.string(&text)
		*target = append(*target, text)
		return err
	})
}

// check reports what keeps a review from being decided.
func (r *review) check() error {
	q := &r.request
	switch {
	case r.kind != kind:
		return fmt.Errorf("kind is %q: %s is wanted", clip(r.kind), kind)
	case r.apiVersion != v1 && r.apiVersion != v1beta1:
		return fmt.Errorf("apiVersion is %q: %s or %s is wanted", clip(r.apiVersion), v1, v1beta1)
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
		return fmt.Errorf("request.operation is %q: one of %q is wanted", clip(string(q.Operation)), usher.Operations())
	case q.Object == nil && (q.Operation == usher.Create || q.Operation == usher.Update):
		return fmt.Errorf("request.object is missing: %s has one", q.Operation)
	case q.OldObject == nil && (q.Operation == usher.Update || q.Operation == usher.Delete):
		return fmt.Errorf("request.oldObject is missing: %s has one", q.Operation)
	}
	return nil
}

// identified reports whether enough is known of a review to answer it.
func (r *review) identified() bool {
	return r.kind == kind && (r.apiVersion == v1 || r.apiVersion == v1beta1) &&
		r.request.UID != "" && len(r.request.UID) <= maxUID
}

// clip keeps what is repeated to a caller short.
func clip(text string) string {
	const enough = 64
	if len(text) > enough {
		return strings.ToValidUTF8(text[:enough], "") + "…"
	}
	return text
}
