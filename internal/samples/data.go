package samples

import (
	"context"

	usher "github.com/usher-dev/usher"
)

// ConfigMaps refuses ConfigMaps whose data has webhook-disallow at the key webhook-e2e-test, and to
// delete those that have webhook-nondeletable there. Its text is the reason, not the message.
func ConfigMaps() usher.Decider {
	return only("configmaps", guarded("the configmap contains unwanted key and value",
		"the configmap cannot be deleted because it contains unwanted key and value"))
}

// CustomResources does the same for objects of every kind that have data.
func CustomResources() usher.Decider {
	return guarded("the custom resource contains unwanted data",
		"the custom resource cannot be deleted because it contains unwanted key and value")
}

// ConfigMapStages adds mutation-stage-1 to the data of ConfigMaps that have mutation-start
// there, and mutation-stage-2 to those that have mutation-stage-1: one stage a call.
func ConfigMapStages() usher.Decider { return only("configmaps", CustomResourceStages()) }

// CustomResourceStages does the same for objects of every kind that have data.
func CustomResourceStages() usher.Decider {
	return usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		data, err := dataOf(r.Target())
		switch {
		case err != nil:
			return refused(err), nil
		case data["mutation-stage-1"] == "yes":
			return add("yes", "data", "mutation-stage-2"), nil
		case data["mutation-start"] == "yes":
			return add("yes", "data", "mutation-stage-1"), nil
		}
		return usher.Allowed(), nil
	})
}

// guarded denies by the value in data.
func guarded(unwanted, undeletable string) usher.Decider {
	return usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		data, err := dataOf(r.Target())
		if err != nil {
			return refused(err), nil
		}
		value, writes := data[mark], r.Operation == usher.Create || r.Operation == usher.Update
		switch {
		case writes && value == "webhook-disallow":
			return usher.Decision{Verdict: usher.Deny, Reason: unwanted}, nil
		case r.Operation == usher.Delete && value == "webhook-nondeletable":
			return usher.Decision{Verdict: usher.Deny, Reason: undeletable}, nil
		}
		return usher.Allowed(), nil
	})
}

// dataOf returns what an object has at data. Values there may be of any type, and data
// itself may be no map: then there is nothing to look at.
func dataOf(object *usher.Object) (map[string]any, error) {
	var o struct {
		Data any `json:"data"`
	}
	err := object.Into(&o)
	data, _ := o.Data.(map[string]any)
	return data, err
}

// only refuses requests for anything but the core resource.
func only(resource string, next usher.Decider) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		if denial, is := expect(r, resource); is {
			return denial, nil
		}
		return next.Decide(ctx, r)
	})
}
