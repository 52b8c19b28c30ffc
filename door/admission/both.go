package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
)

// A Result is what a decider says about a request in both phases of admission.
type Result struct {
	// Mutation is the decision of the phase Mutate, Validation that of the phase Validate; it is zero if
	// Mutation denies.
	Mutation, Validation usher.Decision
	// ForMutation and ForValidation are the requests that these are about, to explain them by. ForValidation
	// is nil if Mutation denies.
	ForMutation, ForValidation *usher.Request
	// Object is the object as mutation has changed it, and as it was validated but for a name that is
	// generated. It is nil if the request has none, or if Mutation denies.
	Object *usher.Object
}

// Denial returns the decision that denies the request; nil means that the request is allowed.
func (r *Result) Denial() *usher.Decision {
	switch {
	case r.Mutation.Verdict == usher.Deny:
		return &r.Mutation
	case r.Validation.Verdict == usher.Deny:
		return &r.Validation
	}
	return nil
}

// Decide asks a decider about a request in both phases, as an API server does: the phase Validate gets the
// object as the phase Mutate has changed it, and with a name if it is created with a generateName alone. The
// phase of the request does not matter. It is for programs that decide without an API server, and for tests
// of webhooks. An error means that there is no decision; without a decider or a request there is none. Where the decider
// panics, so does Decide, unlike the handlers, which deny: a test then shows where.
func Decide(ctx context.Context, d usher.Decider, r *usher.Request) (Result, error) {
	if d == nil {
		return Result{}, errors.New("decide request: there is no decider")
	}
	if r == nil {
		return Result{}, errors.New("decide request: there is no request")
	}
	// A decider may keep requests.
	mutation, validation := *r, *r
	mutation.Phase, validation.Phase = usher.Mutate, usher.Validate
	result := Result{ForMutation: &mutation}
	var err error
	if result.Mutation, err = d.Decide(ctx, &mutation); err != nil || result.Mutation.Verdict == usher.Deny {
		return result, err
	}
	if r.Object != nil {
		tree, err := r.Object.Tree()
		if err != nil {
			return result, fmt.Errorf("decode object: %w", err)
		}
		changed, _, err := jsonpatch.Apply(tree, result.Mutation.Patch)
		if err != nil {
			return result, fmt.Errorf("apply patch: %w", err)
		}
		result.Object = usher.TreeObject(changed)
		validation.Object = result.Object
		if named, name := generated(&validation, changed); name != "" {
			validation.Object, validation.Name = usher.TreeObject(named), name
		}
	}
	result.ForValidation = &validation
	result.Validation, err = d.Decide(ctx, &validation)
	return result, err
}

// An API server cuts what a name is generated from to as many bytes, and appends five characters.
const (
	longestBase = 58
	suffix      = "xxxxx"
)

// generated returns the object of a creation without a name as it is between the phases, and its name: that of
// the object, or one that is generated, always the same. It is empty if there is neither.
func generated(r *usher.Request, object map[string]any) (named map[string]any, name string) {
	metadata, _ := object["metadata"].(map[string]any)
	prefix, _ := metadata["generateName"].(string)
	if r.Operation != usher.Create || r.Subresource != "" || r.Name != "" {
		return nil, ""
	}
	if name, _ = metadata["name"].(string); name != "" || prefix == "" {
		return object, name
	}
	name = prefix[:min(len(prefix), longestBase)] + suffix
	named, metadata = maps.Clone(object), maps.Clone(metadata)
	metadata["name"], named["metadata"] = name, metadata
	return named, name
}

// RequestOf returns the request of an AdmissionReview, of the phase Mutate: a decider that gets only that one does
// not validate, so that what validation denies would be allowed. [Decide] asks about both phases. It shares the
// bytes of the objects. That of nil, as in a review without a request, has no operation, so that policies refuse to decide it.
func RequestOf(r *admissionv1.AdmissionRequest) *usher.Request {
	if r == nil {
		return &usher.Request{Phase: usher.Mutate}
	}
	request := &usher.Request{
		UID:         string(r.UID),
		Phase:       usher.Mutate,
		Operation:   usher.Operation(r.Operation),
		Kind:        schema.GroupVersionKind(r.Kind),
		Resource:    schema.GroupVersionResource(r.Resource),
		Subresource: r.SubResource,
		Name:        r.Name,
		Namespace:   r.Namespace,
		User:        usher.User{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups, Extra: make(map[string][]string, len(r.UserInfo.Extra))},
		DryRun:      r.DryRun != nil && *r.DryRun,
		Object:      usher.RawObject(r.Object.Raw),
		OldObject:   usher.RawObject(r.OldObject.Raw),
		Options:     usher.RawObject(r.Options.Raw),
	}
	for key, values := range r.UserInfo.Extra {
		request.User.Extra[key] = values
	}
	if r.RequestKind != nil && *r.RequestKind != r.Kind {
		request.Requested, request.RequestedResource = schema.GroupVersionKind(*r.RequestKind), request.Resource
		if r.RequestResource != nil {
			request.RequestedResource = schema.GroupVersionResource(*r.RequestResource)
		}
	}
	return request
}
