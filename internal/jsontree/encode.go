package jsontree

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Append appends a tree, or any other value, as JSON, as json.Marshal would write it.
func Append(to []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(to, "null"...), nil
	case bool:
		return strconv.AppendBool(to, v), nil
	case string:
		return AppendString(to, v), nil
	case int64:
		return strconv.AppendInt(to, v, 10), nil
	case []any:
		return appendArray(to, v)
	case map[string]any:
		if v != nil && len(v) <= fewKeys {
			return appendObject(to, v)
		}
	}
	// Large maps take as long to be sorted, and floats are a matter of taste.
	encoded, err := json.Marshal(value)
	return append(to, encoded...), err
}

// fewKeys is up to how many keys of a map are sorted without an allocation.
const fewKeys = 16

func appendObject(to []byte, object map[string]any) ([]byte, error) {
	var array [fewKeys]string
	keys := array[:0]
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	to = append(to, '{')
	for i, key := range keys {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(AppendString(to, key), ':')
		var err error
		if to, err = Append(to, object[key]); err != nil {
			return nil, err
		}
	}
	return append(to, '}'), nil
}

func appendArray(to []byte, array []any) ([]byte, error) {
	if array == nil {
		return append(to, "null"...), nil
	}
	to = append(to, '[')
	for i, item := range array {
		if i > 0 {
			to = append(to, ',')
		}
		var err error
		if to, err = Append(to, item); err != nil {
			return nil, err
		}
	}
	return append(to, ']'), nil
}

// AppendString appends a string as JSON, as json.Marshal would write it.
func AppendString(to []byte, s string) []byte {
	if plain(s) {
		to = append(to, '"')
		to = append(to, s...)
		return append(to, '"')
	}
	// A string can always be encoded.
	encoded, _ := json.Marshal(s)
	return append(to, encoded...)
}

// plain reports whether json.Marshal writes s as it is.
func plain(s string) bool {
	for i := range len(s) {
		if !literally[s[i]] {
			return false
		}
	}
	return true
}

// literally has the bytes that json.Marshal writes as they are wherever they stand.
var literally = func() (table [256]bool) {
	for c := byte(' '); c < utf8.RuneSelf; c++ {
		table[c] = strings.IndexByte(`"\\<>&`, c) < 0
	}
	return table
}()
