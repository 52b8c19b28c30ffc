package api

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
)

// ErrUnknownKind is the error of [Decode] for an object that is not a policy.
var ErrUnknownKind = errors.New("not a policy kind")

// kinds makes an empty policy of each kind.
// Package variables are otherwise for sentinels; this table is one of the API, and never changes.
var kinds = map[schema.GroupVersionKind]func() Object{
	v1alpha1.GroupVersion.WithKind("OverridePolicy"):        func() Object { return &v1alpha1.OverridePolicy{} },
	v1alpha1.GroupVersion.WithKind("ClusterOverridePolicy"): func() Object { return &v1alpha1.ClusterOverridePolicy{} },
	v1alpha1.GroupVersion.WithKind("ClusterValidatePolicy"): func() Object { return &v1alpha1.ClusterValidatePolicy{} },

	usherv1alpha1.GroupVersion.WithKind("AuthorizationPolicy"):        func() Object { return &usherv1alpha1.AuthorizationPolicy{} },
	usherv1alpha1.GroupVersion.WithKind("ClusterAuthorizationPolicy"): func() Object { return &usherv1alpha1.ClusterAuthorizationPolicy{} },
}

// Kinds returns every kind of policy, sorted.
func Kinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupVersionKind) int {
		return cmp.Compare(a.String(), b.String())
	})
}

// IsPolicy reports whether objects of this kind are policies.
func IsPolicy(kind schema.GroupVersionKind) bool {
	_, ok := kinds[kind]
	return ok
}

// IsGroup reports whether the kinds of an API group are policies.
func IsGroup(group string) bool {
	for kind := range kinds {
		if kind.Group == group {
			return true
		}
	}
	return false
}

// Decode reads one policy from JSON. Field names are case-sensitive; those that the kind
// does not have, and those that are written twice, are returned in the policy and are
// not an error. The status, which is not the author's, may be anything: what is wrong
// with it is passed over.
func Decode(raw []byte) (Policy, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return Policy{}, fmt.Errorf("decode policy: %w", err)
	}
	if head.APIVersion == "" || head.Kind == "" {
		return Policy{}, fmt.Errorf("decode policy: apiVersion or kind is missing: %w", ErrUnknownKind)
	}
	fresh, ok := kinds[schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)]
	if !ok {
		return Policy{}, fmt.Errorf("decode %s %s: %w", head.APIVersion, head.Kind, ErrUnknownKind)
	}
	policy := Policy{Object: fresh()}
	strict, err := json.UnmarshalStrict(raw, policy.Object)
	if err != nil {
		policy.Object = fresh()
		raw = withoutStatus(raw)
		if strict, err = json.UnmarshalStrict(raw, policy.Object); err != nil {
			return Policy{}, fmt.Errorf("decode %s: %w", head.Kind, err)
		}
	}
	if len(strict) > 0 {
		policy.Unknown = paths(json.UnmarshalStrict(raw, fresh(), json.DisallowUnknownFields))
		policy.Duplicate = paths(json.UnmarshalStrict(raw, fresh(), json.DisallowDuplicateFields))
	}
	return policy, nil
}

// withoutStatus is raw without its status, or raw if it cannot be taken apart.
func withoutStatus(raw []byte) []byte {
	var fields map[string]stdjson.RawMessage
	if err := stdjson.Unmarshal(raw, &fields); err != nil {
		return raw
	}
	delete(fields, "status")
	stripped, err := stdjson.Marshal(fields)
	if err != nil {
		return raw
	}
	return stripped
}

// paths returns the paths of the fields that strict decoding objected to, sorted, without
// those of the status. The same text has been decoded before: there is no other error.
func paths(strict []error, _ error) []string {
	var paths []string
	for _, err := range strict {
		field, ok := err.(json.FieldError)
		if ok && !strings.HasPrefix(field.FieldPath(), "status.") {
			paths = append(paths, field.FieldPath())
		}
	}
	slices.Sort(paths)
	return paths
}
