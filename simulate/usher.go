package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// registered is the name of Usher's webhook configurations.
const registered = "usher"

// WithUsher returns the objects of a cluster with the webhook configurations that a server
// of Usher would register for rules, unless there are some of that name already.
func WithUsher(objects []map[string]any, rules []rule.Rule) ([]map[string]any, error) {
	if slices.ContainsFunc(objects, isRegistration) {
		return objects, nil
	}
	known, err := FromObjects(objects)
	if err != nil {
		return nil, err
	}
	applier := webhookconfig.New(nil, known.Mapper(), webhookconfig.Options{
		Name: registered, Namespace: "usher-system", Service: registered, Log: slog.New(slog.DiscardHandler),
	})
	mutating, validating, err := applier.Objects(rule.Cover(rules), nil)
	if unknown := (*webhookconfig.IncompleteError)(nil); err != nil && !errors.As(err, &unknown) {
		return nil, fmt.Errorf("register usher: %w", err)
	}
	all := slices.Clone(objects)
	for _, object := range []runtime.Object{mutating, validating} {
		tree, err := treeOf(object)
		if err != nil {
			return nil, err
		}
		all = append(all, tree)
	}
	return all, nil
}

func isRegistration(tree map[string]any) bool {
	kind := kindOfTree(tree)
	isConfiguration := kind.Kind == "MutatingWebhookConfiguration" || kind.Kind == "ValidatingWebhookConfiguration"
	return isConfiguration && nameOfTree(tree) == registered
}

// AnsweredBy has a decider answer for the webhooks of Usher, as its server would, each for
// the entry that it is: it is for [Options.Local].
func AnsweredBy(d usher.Decider) func(configuration, webhook string) http.Handler {
	quiet := admission.Options{Log: slog.New(slog.DiscardHandler)}
	return func(_, webhook string) http.Handler {
		at, ok := webhookconfig.EntryOf(webhook)
		if !ok {
			return nil
		}
		entry := usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
			asked := *r
			asked.Entry = at.String()
			return d.Decide(ctx, &asked)
		})
		if at.Phase == usher.Mutate {
			return admission.Mutate(entry, quiet)
		}
		return admission.Validate(entry, quiet)
	}
}
