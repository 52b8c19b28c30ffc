package interpret

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// mergeKeys are the lists of built-in kinds whose elements are merged, by the key that tells them apart. Lists without a
// key are those of which an element has several, or is a text.
var mergeKeys = map[string]string{
	"containers": "name", "initContainers": "name", "ephemeralContainers": "name", "volumes": "name", "env": "name", "imagePullSecrets": "name",
	"volumeMounts": "mountPath", "volumeDevices": "devicePath", "secrets": "name", "ownerReferences": "uid", "hostAliases": "ip",
	"finalizers": "", "ports": "", "topologySpreadConstraints": "", "conditions": "", "resourceClaims": "name", "podIPs": "", "hostIPs": "", "addresses": "",
}

// builtInGroups are those of the kinds of which Kyverno knows how lists are merged.
var builtInGroups = []string{
	"", "apps", "batch", "autoscaling", "policy", "extensions", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io", "scheduling.k8s.io",
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io",
	"coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io", "node.k8s.io", "resource.k8s.io",
}

// merged returns an object with a patch merged into it. Null removes, lists of other kinds are replaced.
func merged(object map[string]any, patch any) (map[string]any, error) {
	m := merger{builtIn: slices.Contains(builtInGroups, kindOfObject(object).group)}
	result, err := m.merge(object, patch, "")
	if err != nil {
		return nil, err
	}
	changed, ok := result.(map[string]any)
	if !ok {
		return nil, errors.New("a patch makes no object")
	}
	return changed, nil
}

type merger struct{ builtIn bool }

// merge merges a value at a field into another one; nil is none.
func (m merger) merge(into, patch any, field string) (any, error) {
	switch p := patch.(type) {
	case map[string]any:
		old, ok := into.(map[string]any)
		if !ok && into != nil {
			return nil, errors.New("a patch of a map is for something else")
		}
		all := maps.Clone(old)
		if all == nil {
			all = map[string]any{}
		}
		for _, name := range slices.Sorted(maps.Keys(p)) {
			if name == "$patch" || name == "$retainKeys" {
				return nil, &Unread{"the directive " + name}
			}
			value, err := m.merge(all[name], p[name], name)
			if err != nil {
				return nil, err
			}
			if value == nil {
				delete(all, name)
			} else {
				all[name] = value
			}
		}
		return all, nil
	case []any:
		old, ok := into.([]any)
		if !ok && into != nil {
			return nil, errors.New("a patch of a list is for something else")
		}
		key, merges := mergeKeys[field]
		if !m.builtIn || !merges {
			return p, nil
		}
		return m.list(old, p, field, key)
	}
	switch into.(type) {
	case map[string]any, []any:
		if patch != nil {
			return nil, errors.New("a patch of a scalar is for something else")
		}
	}
	return patch, nil
}

// list merges elements of a patch into those with the same key. They come first, with what is new.
func (m merger) list(old, patch []any, field, key string) (any, error) {
	if key == "" {
		return nil, &Unread{"how elements of " + field + " are merged"}
	}
	named := map[string]any{}
	nameOf := func(item any) (string, error) {
		fields, _ := item.(map[string]any)
		name, ok := fields[key].(string)
		if !ok || name == "" {
			return "", &Unread{fmt.Sprintf("an element of %s without %s", field, key)}
		}
		return name, nil
	}
	for _, item := range old {
		name, err := nameOf(item)
		if err != nil {
			return nil, err
		}
		if named[name] != nil {
			return nil, &Unread{fmt.Sprintf("elements of %s with the same %s", field, key)}
		}
		named[name] = item
	}
	var names []string
	seen := map[string]bool{}
	for _, item := range append(slices.Clone(patch), old...) {
		name, err := nameOf(item)
		if err != nil {
			return nil, err
		}
		if !seen[name] {
			seen[name], names = true, append(names, name)
		}
	}
	for _, item := range patch {
		name, _ := nameOf(item)
		merged, err := m.merge(named[name], item, "")
		if err != nil {
			return nil, err
		}
		named[name] = merged
	}
	all := make([]any, len(names))
	for i, name := range names {
		all[i] = named[name]
	}
	return all, nil
}
