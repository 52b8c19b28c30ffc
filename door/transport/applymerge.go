package transport

import (
	"encoding/json"
	"maps"
	"reflect"
)

// A fieldSet is a set of fields as managedFields write it.
type fieldSet map[string]any

// owners are the field sets of all managers of an object. They have the keys of the elements of its
// lists.
func owners(tree map[string]any) []fieldSet {
	metadata, _ := tree["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	var sets []fieldSet
	for _, entry := range entries {
		manager, _ := entry.(map[string]any)
		if fields, ok := manager["fieldsV1"].(map[string]any); ok {
			sets = append(sets, fields)
		}
	}
	return sets
}

// below are the field sets below a field.
func below(sets []fieldSet, key string) []fieldSet {
	var found []fieldSet
	for _, set := range sets {
		if inner, ok := set[key].(map[string]any); ok {
			found = append(found, inner)
		}
	}
	return found
}

// mergeApplied returns the configuration to apply so that the object becomes wanted; intent alone
// leads to result. It does not change its arguments.
func mergeApplied(intent, result, wanted map[string]any, sets []fieldSet) map[string]any {
	grafted := make(map[string]any, len(intent))
	maps.Copy(grafted, intent)
	for key, value := range wanted {
		was, existed := result[key]
		if existed && reflect.DeepEqual(was, value) {
			continue
		}
		grafted[key] = mergeValue(intent[key], was, value, below(sets, "f:"+key))
	}
	for key := range result {
		if _, kept := wanted[key]; !kept {
			delete(grafted, key)
		}
	}
	return grafted
}

func mergeValue(intent, result, wanted any, sets []fieldSet) any {
	switch wanted := wanted.(type) {
	case map[string]any:
		was, ok := result.(map[string]any)
		if !ok {
			return wanted
		}
		own, _ := intent.(map[string]any)
		return mergeApplied(own, was, wanted, sets)
	case []any:
		was, _ := result.([]any)
		own, _ := intent.([]any)
		return mergeList(own, was, wanted, sets)
	}
	return wanted
}

// mergeList merges the elements of a list that have keys. Any other list is applied as a whole.
func mergeList(intent, result, wanted []any, sets []fieldSet) []any {
	keys := keysOf(sets)
	if len(keys) == 0 {
		return wanted
	}
	var grafted []any
	for _, element := range intent {
		if find(wanted, keys, element) != nil {
			grafted = append(grafted, element)
		}
	}
	for _, element := range wanted {
		is, ok := element.(map[string]any)
		if !ok {
			return wanted
		}
		was, _ := find(result, keys, is).(map[string]any)
		if was != nil && reflect.DeepEqual(was, is) {
			continue
		}
		own, _ := find(intent, keys, is).(map[string]any)
		changed := mergeApplied(withKeys(own, keys, is), was, is, below(sets, "k:"+name(keys, is)))
		at := -1
		for i := range grafted {
			if same(grafted[i], is, keys) {
				at = i
			}
		}
		if at < 0 {
			grafted = append(grafted, changed)
		} else {
			grafted[at] = changed
		}
	}
	return grafted
}

// keysOf are the key fields of the elements of a list; none if the sets have no keys.
func keysOf(sets []fieldSet) []string {
	for _, set := range sets {
		for field := range set {
			var key map[string]any
			if len(field) < 2 || field[:2] != "k:" || json.Unmarshal([]byte(field[2:]), &key) != nil {
				continue
			}
			names := make([]string, 0, len(key))
			for name := range key {
				names = append(names, name)
			}
			return names
		}
	}
	return nil
}

// name is the key of an element in the form of managedFields.
func name(keys []string, element map[string]any) string {
	key := make(map[string]any, len(keys))
	for _, k := range keys {
		key[k] = element[k]
	}
	text, err := json.Marshal(key)
	if err != nil {
		return ""
	}
	return string(text)
}

func withKeys(intent map[string]any, keys []string, element map[string]any) map[string]any {
	own := make(map[string]any, len(intent)+len(keys))
	maps.Copy(own, intent)
	for _, k := range keys {
		if value, ok := element[k]; ok {
			own[k] = value
		}
	}
	return own
}

func same(a any, b map[string]any, keys []string) bool {
	element, ok := a.(map[string]any)
	for _, k := range keys {
		// A missing key has its default, which all elements omit alike.
		ok = ok && (reflect.DeepEqual(element[k], b[k]) || element[k] == nil || b[k] == nil)
	}
	return ok
}

func find(list []any, keys []string, like any) any {
	wanted, ok := like.(map[string]any)
	for _, element := range list {
		if ok && same(element, wanted, keys) {
			return element
		}
	}
	return nil
}
