package openreports

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// InstalledByAnnotation has the value [Source] in CustomResourceDefinitions that Usher's chart
// installed.
const InstalledByAnnotation = "usher.dev/installed-by"

// Remove deletes the reports of Usher, and then the CustomResourceDefinitions of reports, if Usher's
// chart installed them and there are no reports of others. It calls tell for each object that it
// deletes, and continues after an error.
func Remove(ctx context.Context, c rest.Interface, tell func(kind, name string)) error {
	reports := client{rest: c}
	var ours []*metav1.PartialObjectMetadata
	err := reports.metadata(ctx, func(m *metav1.PartialObjectMetadata) {
		if _, ok := number(&m.ObjectMeta); ok {
			ours = append(ours, m)
		}
	})
	if errors.Is(err, ErrNotInstalled) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range ours {
		kind, name := "Report", m.Namespace+"/"+m.Name
		if m.Namespace == "" {
			kind, name = "ClusterReport", m.Name
		}
		// It goes in whichever version it is.
		m.ResourceVersion = ""
		if err := reports.remove(ctx, &m.ObjectMeta); err != nil {
			errs = append(errs, fmt.Errorf("remove %s %s: %w", kind, name, err))
			continue
		}
		tell(kind, name)
	}
	if len(errs) == 0 {
		errs = append(errs, reports.removeDefinitions(ctx, tell))
	}
	return errors.Join(errs...)
}

// removeDefinitions deletes the CustomResourceDefinitions, if they are Usher's and nobody uses them.
func (c client) removeDefinitions(ctx context.Context, tell func(kind, name string)) error {
	var ours []*metav1.PartialObjectMetadata
	for _, resource := range resources() {
		var found metav1.PartialObjectMetadata
		name := resource + "." + Group
		err := do(ctx, c.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name), &found)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
		}
		if found.Annotations[InstalledByAnnotation] != Source {
			continue
		}
		var left page[metav1.PartialObjectMetadata]
		if err := do(ctx, c.request("GET", "/apis", Group, Version, resource).SetHeader("Accept", asMetadata).Param("limit", "1"), &left); err != nil {
			return fmt.Errorf("list %s: %w", resource, err)
		}
		if len(left.Items) > 0 {
			return nil
		}
		ours = append(ours, &found)
	}
	for _, found := range ours {
		err := remove(ctx, c.request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", found.Name), &found.ObjectMeta)
		if err != nil {
			return fmt.Errorf("remove CustomResourceDefinition %s: %w", found.Name, err)
		}
		tell("CustomResourceDefinition", found.Name)
	}
	return nil
}
