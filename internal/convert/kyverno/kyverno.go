// Package kyverno makes object policies of Kyverno's ClusterPolicies and Policies.
//
// A policy is converted wholly, or left out with the reasons. What it becomes decides as Kyverno does, with the
// configuration that Kyverno's chart has by default; where users would notice a difference, there is a note.
package kyverno

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/stall"
)

// group is the API group of Kyverno's older policies.
const group = "kyverno.io"

// Options say how to convert policies.
type Options = convert.Options

// Is reports whether an object is one that decides requests to Kyverno, or that was meant to.
func Is(object map[string]any) bool {
	version, _ := object["apiVersion"].(string)
	of := schema.FromAPIVersionAndKind(version, "")
	return of.Group == group && object["kind"] != "UpdateRequest"
}

// Policies converts each policy among the objects. What is not converted is left out by name.
func Policies(ctx context.Context, objects []convert.Foreign, o Options) []convert.Import {
	kept, all := convert.Once(objects)
	var exceptions []exception
	var found []*convert.Foreign
	leave := func(f *convert.Foreign, field, what, do string) {
		i := convert.Import{Of: f}
		i.Leave(f, field, what, do)
		all = append(all, i)
	}
	for _, f := range kept {
		switch of := f.Ref(); of.Kind {
		case "ClusterPolicy", "Policy":
			found = append(found, f)
		case "PolicyException":
			e, errs := syntax.DecodeException(f.Object)
			if len(errs) > 0 {
				leave(f, errs[0].Field, errs[0].What, "correct it")
				continue
			}
			exceptions = append(exceptions, exception{of: f, is: e})
		default:
			leave(f, "", "objects of the kind "+of.Kind+" are not imported", insteadOf(of.Kind))
		}
	}
	for _, f := range found {
		stall.Of(ctx).At(f.Ref().String())
		all = append(all, policy(ctx, f, exceptions, o))
	}
	return all
}

// insteadOf says what to do instead of importing an object.
func insteadOf(kind string) string {
	switch {
	case strings.Contains(kind, "Cleanup"):
		return "keep it, or write a CronJob: nothing is deleted by policies"
	case kind == "GlobalContextEntry":
		return "leave it out: policies read objects with data.list"
	}
	return "leave it out"
}

// policy converts a policy.
func policy(ctx context.Context, f *convert.Foreign, exceptions []exception, o Options) convert.Import {
	i := convert.Import{Of: f}
	p, errs := syntax.Decode(f.Object)
	for _, err := range errs {
		i.Leave(f, err.Field, err.What, "correct the policy")
	}
	if len(errs) > 0 {
		return i
	}
	c := &conversion{Options: o, i: &i, p: p, exceptions: exceptions}
	c.convert()
	i.Finish(ctx, o.Limits)
	return i
}
