package judge

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/printable"
)

// changes returns the fields that a patch changes in an object, in order, and the changed object. A
// patch that leaves the object as it is changes none.
func changes(before map[string]any, patch usher.Patch) (fields []string, after map[string]any) {
	after, _, err := jsonpatch.Apply(before, patch)
	if err != nil {
		// It was applied to the object before.
		return []string{"the object"}, before
	}
	for i := range patch {
		if patch[i].Value != nil && isEmpty(patch[i].Value) && isEmpty(valueAt(before, patch[i].Path)) {
			// What is put into it counts.
			continue
		}
		for _, pointer := range []string{patch[i].Path, patch[i].From} {
			if pointer == "" && patch[i].Path != "" || patch[i].Op == "test" {
				continue
			}
			field, changed := changedAt(before, after, pointer)
			if changed && !slices.Contains(fields, field) {
				fields = append(fields, field)
			}
		}
	}
	return fields, after
}

// changedAt returns the field of a pointer, or the list that it leads through, and whether its value
// differs between two objects. An empty value is as none.
func changedAt(before, after map[string]any, pointer string) (field string, changed bool) {
	var b strings.Builder
	now, then := any(after), any(before)
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		token = unescape.Replace(token)
		_, isList := now.([]any)
		_, wasList := then.([]any)
		if (isList || wasList) && (listLength(now) != listLength(then) || token == "-") {
			// Items move.
			break
		}
		if isList || wasList {
			b.WriteString("[" + token + "]")
		} else {
			writeName(&b, token)
		}
		now, then = child(now, token), child(then, token)
	}
	if isEmpty(now) && isEmpty(then) {
		return "", false
	}
	return b.String(), !reflect.DeepEqual(now, then)
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// writeName appends a key to a path: one that is no name of a field is in brackets.
func writeName(b *strings.Builder, key string) {
	plain := key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	switch {
	case !plain:
		b.WriteString("[" + printable.BlankLines(key) + "]")
	case b.Len() > 0:
		b.WriteString("." + key)
	default:
		b.WriteString(key)
	}
}

// valueAt returns the value at a pointer, nil if there is none.
func valueAt(value any, pointer string) any {
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer != "" {
			value = child(value, unescape.Replace(token))
		}
	}
	return value
}

// child returns the value at a key or an index, nil if there is none.
func child(value any, key string) any {
	switch v := value.(type) {
	case map[string]any:
		return v[key]
	case []any:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

func listLength(value any) int {
	list, ok := value.([]any)
	if !ok {
		return -1
	}
	return len(list)
}

// isEmpty reports whether there is no value, or one without content.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
