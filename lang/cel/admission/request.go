package admission

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// requestValue is the variable request: an AdmissionRequest without its objects, as JSON. Fields
// without a value are absent.
func (in *Input) requestValue(asConditions bool) map[string]any {
	value := &in.request
	if asConditions {
		value = &in.conditionRequest
	}
	if *value != nil {
		return *value
	}
	r := in.Request
	requestedKind, requestedResource := r.Kind, r.Resource
	if !r.Requested.Empty() {
		requestedKind = r.Requested
		requestedResource = cmp.Or(r.RequestedResource, r.Resource)
	}
	resource := r.Resource
	if asConditions {
		resource = requestedResource
	}
	m := map[string]any{
		"uid":             "",
		"kind":            kindValue(r.Kind),
		"resource":        resourceValue(resource),
		"requestKind":     kindValue(requestedKind),
		"requestResource": resourceValue(requestedResource),
		"operation":       string(r.Operation),
		"userInfo":        in.userValue(),
		"object":          nil,
		"oldObject":       nil,
		"dryRun":          r.DryRun,
		"options":         nil,
	}
	for key, text := range map[string]string{"subResource": r.Subresource, "requestSubResource": r.Subresource, "name": r.Name, "namespace": r.Namespace} {
		if text != "" {
			m[key] = text
		}
	}
	if options, err := r.Options.Tree(); err == nil && options != nil {
		m["options"] = options
	}
	*value = m
	return m
}

func kindValue(k schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func resourceValue(r schema.GroupVersionResource) map[string]any {
	return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
}

func (in *Input) userValue() map[string]any {
	user := in.Request.User
	m := make(map[string]any, 4)
	for key, text := range map[string]string{"username": user.Name, "uid": user.UID} {
		if text != "" {
			m[key] = text
		}
	}
	if len(user.Groups) > 0 {
		m["groups"] = listValue(user.Groups)
	}
	if len(user.Extra) > 0 {
		extra := make(map[string]any, len(user.Extra))
		for key, values := range user.Extra {
			extra[key] = listValue(values)
		}
		m["extra"] = extra
	}
	return m
}

func listValue(texts []string) []any {
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = text
	}
	return values
}
