package try

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
	"github.com/usher-dev/usher/simulate"
)

// registered is the name of Usher's webhook configurations.
const registered = "usher"

// withUsher returns the objects of a cluster with the webhook configurations that a server
// of Usher would register for rules, unless there are some of that name already.
func withUsher(objects []map[string]any, rules []rule.Rule) ([]map[string]any, error) {
	if slices.ContainsFunc(objects, isRegistration) {
		return objects, nil
	}
	known, err := simulate.FromObjects(objects)
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
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encode object: %w", err)
		}
		tree, err := usher.RawObject(raw).Tree()
		if err != nil {
			return nil, err
		}
		all = append(all, tree)
	}
	return all, nil
}

func isRegistration(tree map[string]any) bool {
	kind, _ := tree["kind"].(string)
	metadata, _ := tree["metadata"].(map[string]any)
	isConfiguration := kind == "MutatingWebhookConfiguration" || kind == "ValidatingWebhookConfiguration"
	return isConfiguration && metadata["name"] == registered
}
