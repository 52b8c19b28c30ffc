package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// ErrUnknownKind is the error of [Decode] for an object that is not a policy.
var ErrUnknownKind = errors.New("not a policy kind")

// kinds makes an empty policy of each kind.
// Package variables are otherwise for sentinels; this table is one of the API, and never changes.
var kinds = map[schema.GroupVersionKind]func() Object{
	v1alpha1.GroupVersion.WithKind("OverridePolicy"):        func() Object { return &v1alpha1.OverridePolicy{} },
	v1alpha1.GroupVersion.WithKind("ClusterOverridePolicy"): func() Object { return &v1alpha1.ClusterOverridePolicy{} },
	v1alpha1.GroupVersion.WithKind("ClusterValidatePolicy"): func() Object { return &v1alpha1.ClusterValidatePolicy{} },
}

// IsPolicy reports whether objects of this kind are policies.
func IsPolicy(kind schema.GroupVersionKind) bool {
	_, ok := kinds[kind]
	return ok
}

// Decode reads one policy from JSON. Field names are case-sensitive; those that the kind
// does not have are returned in Policy.Unknown, and are not an error.
func Decode(raw []byte) (Policy, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return Policy{}, fmt.Errorf("decode policy: %w", err)
	}
	fresh, ok := kinds[schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)]
	if !ok {
		return Policy{}, fmt.Errorf("decode %s %s: %w", head.APIVersion, head.Kind, ErrUnknownKind)
	}
	object := fresh()
	strict, err := json.UnmarshalStrict(raw, object)
	if err != nil {
		return Policy{}, fmt.Errorf("decode %s: %w", head.Kind, err)
	}
	policy := Policy{Object: object}
	for _, err := range strict {
		policy.Unknown = append(policy.Unknown, unknownField(err))
	}
	slices.Sort(policy.Unknown)
	return policy, nil
}

// unknownField takes the path out of a strict decoding error, which reads
// `unknown field "spec.x"` or `duplicate field "spec.x"`.
func unknownField(err error) string {
	text := err.Error()
	if _, quoted, ok := strings.Cut(text, `"`); ok {
		return strings.TrimSuffix(quoted, `"`)
	}
	return text
}
