// Package celkinds makes object policies of Kyverno's policies in CEL: those of policies.kyverno.io.
//
// Kyverno evaluates them much as an API server evaluates admission policies, with functions of its own. Calls that
// read the cluster become data; others that Usher does not have leave a policy out by name. A policy decides as it
// does with the configuration that Kyverno's chart has by default.
package celkinds

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/stall"
)

// group is the API group of Kyverno's policies in CEL.
const group = "policies.kyverno.io"

// The kinds that are converted.
const (
	validatingKind           = "ValidatingPolicy"
	mutatingKind             = "MutatingPolicy"
	namespacedValidatingKind = "NamespacedValidatingPolicy"
	namespacedMutatingKind   = "NamespacedMutatingPolicy"
	exceptionKind            = "PolicyException"
)

// Options say how to convert policies.
type Options = convert.Options

// Is reports whether an object is a policy of Kyverno in CEL, or an exception to some.
func Is(object map[string]any) bool {
	version, _ := object["apiVersion"].(string)
	return schema.FromAPIVersionAndKind(version, "").Group == group
}

// Policies converts each policy among the objects. What is not converted is left out by name.
func Policies(ctx context.Context, objects []convert.Foreign, o Options) []convert.Import {
	kept, all := convert.Once(objects)
	leave := func(f *convert.Foreign, field, what, do string) {
		i := convert.Import{Of: f}
		i.Leave(f, field, what, do)
		all = append(all, i)
	}
	var found []*convert.Foreign
	var exceptions []*exception
	for _, f := range kept {
		switch of := f.Ref(); of.Kind {
		case validatingKind, mutatingKind, namespacedValidatingKind, namespacedMutatingKind:
			found = append(found, f)
		case exceptionKind:
			e, err := readException(f)
			if err != nil {
				leave(f, "", err.Error(), "correct the exception")
				continue
			}
			exceptions = append(exceptions, e)
		default:
			leave(f, "", "objects of the kind "+of.Kind+" are not imported", insteadOf(of.Kind))
		}
	}
	for _, f := range found {
		stall.Of(ctx).At(f.Ref().String())
		i := convert.Import{Of: f}
		c := &conversion{Options: o, i: &i, exceptions: exceptions}
		c.convert()
		i.Finish(ctx, o.Limits)
		all = append(all, i)
	}
	for _, e := range exceptions {
		if !slices.ContainsFunc(found, e.isFor) {
			leave(e.of, "spec.policyRefs", "the policies that it is for are not among the files", "name the files with them, too")
		}
	}
	return all
}

// insteadOf says what to do instead of importing an object.
func insteadOf(kind string) string {
	switch kind {
	case "ImageValidatingPolicy", "NamespacedImageValidatingPolicy":
		return "keep it: Usher does not verify signatures"
	case "GeneratingPolicy", "NamespacedGeneratingPolicy":
		return "keep it: Usher creates no objects"
	case "DeletingPolicy", "NamespacedDeletingPolicy":
		return "keep it: Usher deletes no objects"
	}
	return "leave it out"
}
