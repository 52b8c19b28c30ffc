package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	usher "github.com/usher-dev/usher"
)

// reviewTimeout bounds how long an API server may take for one question.
const reviewTimeout = 3 * time.Second

// Authorizer returns a decider of requests to authorize that asks an API server, by
// SubjectAccessReview: all authorizers that it has.
func Authorizer(client authorizationclient.SubjectAccessReviewInterface) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
		defer cancel()
		answer, err := client.Create(ctx, SubjectAccessReview(r), metav1.CreateOptions{})
		if err != nil {
			return usher.Decision{}, fmt.Errorf("review access of %s: %w", r.User.Name, err)
		}
		return decisionOf(&answer.Status)
	})
}

// decisionOf reads an answer as API servers read those of webhooks: one that allows and denies
// denies.
func decisionOf(status *authorizationv1.SubjectAccessReviewStatus) (usher.Decision, error) {
	d := usher.Decision{Message: status.Reason}
	switch {
	case status.Denied:
		d.Verdict = usher.Deny
	case status.Allowed:
		d.Verdict = usher.Allow
	}
	if status.EvaluationError != "" {
		return d, errors.New(status.EvaluationError)
	}
	return d, nil
}

// SubjectAccessReview is the review, in v1, by which an API server asks about r.
func SubjectAccessReview(r *usher.Request) *authorizationv1.SubjectAccessReview {
	spec := authorizationv1.SubjectAccessReviewSpec{User: r.User.Name, UID: r.User.UID, Groups: r.User.Groups}
	for key, values := range r.User.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	if r.Access.NonResource {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: r.Access.Path, Verb: r.Access.Verb}
	} else {
		spec.ResourceAttributes = resourceAttributes(r)
	}
	return &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec:     spec,
	}
}

func resourceAttributes(r *usher.Request) *authorizationv1.ResourceAttributes {
	a := &authorizationv1.ResourceAttributes{
		Namespace: r.Namespace, Verb: r.Access.Verb, Group: r.Resource.Group, Version: r.Resource.Version,
		Resource: r.Resource.Resource, Subresource: r.Subresource, Name: r.Name,
	}
	for _, clause := range r.Access.Labels {
		if a.LabelSelector == nil {
			a.LabelSelector = &authorizationv1.LabelSelectorAttributes{}
		}
		a.LabelSelector.Requirements = append(a.LabelSelector.Requirements, metav1.LabelSelectorRequirement{
			Key: clause.Key, Operator: metav1.LabelSelectorOperator(clause.Operator), Values: clause.Values,
		})
	}
	for _, clause := range r.Access.Fields {
		if a.FieldSelector == nil {
			a.FieldSelector = &authorizationv1.FieldSelectorAttributes{}
		}
		a.FieldSelector.Requirements = append(a.FieldSelector.Requirements, metav1.FieldSelectorRequirement{
			Key: clause.Key, Operator: metav1.FieldSelectorOperator(clause.Operator), Values: clause.Values,
		})
	}
	return a
}
