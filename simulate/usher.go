package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// AnsweredBy has a decider answer for the webhooks of Usher, as its server would, each for
// the entry that it is: it is for [Options.Local]. The simulated cluster has to have the webhook configurations of Usher:
// nothing is sent without them, which is an error of [New]. [Registered] adds those that a server would write.
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

// Registered returns the objects of a cluster with the webhook configurations that 'usher serve' would register there,
// unless there are some of that name already: with [AnsweredBy] policies then answer for them. The configurations are
// those of the method WebhookConfigurations of a live.Live.
func Registered(objects []map[string]any, configurations func(meta.RESTMapper) ([]map[string]any, error)) ([]map[string]any, error) {
	if slices.ContainsFunc(objects, isRegistration) {
		return objects, nil
	}
	known, err := FromObjects(objects)
	if err != nil {
		return nil, err
	}
	added, err := configurations(known.Mapper())
	if err != nil {
		return nil, fmt.Errorf("register usher: %w", err)
	}
	return slices.Concat(objects, added), nil
}

func isRegistration(tree map[string]any) bool {
	kind, _ := tree["kind"].(string)
	metadata, _ := tree["metadata"].(map[string]any)
	isConfiguration := kind == "MutatingWebhookConfiguration" || kind == "ValidatingWebhookConfiguration"
	return isConfiguration && metadata["name"] == webhookconfig.DefaultName
}
