package interpret

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	kyaml "sigs.k8s.io/yaml"
)

func canonical(a []string) (any, error) {
	if a[0] == "" {
		return "", nil
	}
	return filepath.Clean(a[0]), nil
}

func toBoolean(a []string) (any, error) {
	switch strings.ToLower(a[0]) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, errors.New("expected true or false")
}

func decode64(a []string) (any, error) {
	raw, err := base64.StdEncoding.DecodeString(a[0])
	return string(raw), err
}

func semverCompare(a []string) (any, error) {
	version, _ := semver.Parse(a[0])
	expected, err := semver.ParseRange(a[1])
	if err != nil {
		return nil, fmt.Errorf("read a range of versions: %w", err)
	}
	return expected(version), nil
}

func parsed(raw []byte) (any, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return v, nil
}

func parseYAML(a []string) (any, error) {
	raw, err := kyaml.YAMLToJSON([]byte(a[0]))
	if err != nil {
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	return parsed(raw)
}

// plain returns the text of a text or number.
func plain(v any) string {
	if n, ok := v.(float64); ok {
		return strconv.FormatFloat(n, 'f', -1, 32)
	}
	s, _ := v.(string)
	return s
}

func regexMatch(a []any) (any, error) {
	pattern, _ := a[0].(string)
	r, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("read a regular expression: %w", err)
	}
	return r.MatchString(plain(a[1])), nil
}

func regexReplace(a []any) (any, error) {
	pattern, _ := a[0].(string)
	r, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("read a regular expression: %w", err)
	}
	return bounded(r.ReplaceAllString(plain(a[1]), plain(a[2])))
}

func labelMatch(a []any) (any, error) {
	labels, _ := a[0].(map[string]any)
	in, _ := a[1].(map[string]any)
	for k, v := range labels {
		if other, ok := in[k]; !ok || !reflect.DeepEqual(v, other) {
			return false, nil
		}
	}
	return true, nil
}

func truncate(a []any) (any, error) {
	s, _ := a[0].(string)
	n, _ := a[1].(float64)
	runes := []rune(s)
	return string(runes[:max(0, min(len(runes), int(n)))]), nil
}

func lookup(a []any) (any, error) {
	if fields, ok := a[0].(map[string]any); ok {
		key, ok := a[1].(string)
		if !ok {
			return nil, errors.New("expected a text as key")
		}
		return fields[key], nil
	}
	list, _ := a[0].([]any)
	n, ok := a[1].(float64)
	if !ok || n != math.Trunc(n) {
		return nil, errors.New("expected a whole number")
	}
	if n < 0 || n >= float64(len(list)) {
		return nil, nil
	}
	return list[int(n)], nil
}

func items(a []any) (any, error) {
	key, _ := a[1].(string)
	value, _ := a[2].(string)
	all := []any{}
	if fields, ok := a[0].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			all = append(all, map[string]any{key: name, value: fields[name]})
		}
		return all, nil
	}
	list, _ := a[0].([]any)
	for i := range list {
		all = append(all, map[string]any{key: float64(i), value: list[i]})
	}
	return all, nil
}

func objectFromLists(a []any) (any, error) {
	keys, _ := a[0].([]any)
	list, _ := a[1].([]any)
	all := map[string]any{}
	for i, key := range keys {
		if kind := kindOf(key); kind != "string" && kind != "number" {
			return nil, errors.New("expected texts as keys")
		}
		all[plain(key)] = nil
		if i < len(list) {
			all[plain(key)] = list[i]
		}
	}
	return all, nil
}
